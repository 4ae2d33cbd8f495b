"""Endpoints of the deployment as a whole: its settings, its checkup and its history."""

from __future__ import annotations

import threading
import time
from typing import Any

from pipeweave.api.contract.deployment import DeploymentLimitRequest, DoctorRequest, SampleRequest
from pipeweave.api.http import Call, Routes
from pipeweave.errors import TooManyRequests
from pipeweave.orchestrator.diagnosis import checks, doctor, history
from pipeweave.orchestrator.documents.deployment import (
    CheckAnswer,
    ConfigAnswer,
    DeploymentLimit,
    DoctorAnswer,
    MonthsAnswer,
    SampleAnswer,
    SettingAnswer,
)
from pipeweave.orchestrator.queueing import deployment_limit
from pipeweave.orchestrator.retention import Policy
from pipeweave.orchestrator.security import ADMIN
from pipeweave.settings import explain_named

routes = Routes("system")

# Seconds for all checks together, and for each of them.
DOCTOR_LIMIT_S = 15.0
CHECK_LIMIT_S = 5.0

# A checkup opens connections of its own, a sample reads much: one at a time in each process.
_checking, _verifying = threading.Lock(), threading.Lock()
_BADNESS = ("ok", "warning", "error")


@routes.add("GET", "/api/config", "Show the settings", scopes=(ADMIN,), is_for_all=True, answer=ConfigAnswer)
def get_config(call: Call) -> dict[str, Any]:
    """Every setting of the API process that answers, its value and where that comes from, as `pipeweave
    config` shows them. Secrets are masked. Workers and beat may have other settings.
    """
    rows = explain_named(call.deployment.settings)
    return ConfigAnswer.of(settings=[SettingAnswer.of(row) for row in rows])


@routes.add(
    "GET",
    "/api/deployment/limit",
    "Show the limit of the deployment",
    scopes=(ADMIN,),
    is_for_all=True,
    answer=DeploymentLimit,
)
def get_limit(call: Call) -> dict[str, Any]:
    """How many task runs of all tenants may be at work, and how many are."""
    with call.reading() as tx:
        row = deployment_limit.read(tx)
    return DeploymentLimit.of(max_running_task_runs=row.most, running_task_runs=row.at_work)


@routes.add(
    "PUT",
    "/api/deployment/limit",
    "Limit the deployment",
    scopes=(ADMIN,),
    is_for_all=True,
    body=DeploymentLimitRequest,
    answer=DeploymentLimit,
    example={"maxRunningTaskRuns": 30},
)
def put_limit(call: Call, body: DeploymentLimitRequest) -> dict[str, Any]:
    """Limit the task runs of all tenants that are at work, whatever workers there are. Further ones are
    `ready` until a place is free; the tenants take turns. What is at work goes on, and runs that are open
    before the limit is set keep starting their steps without it.
    """
    call.change(lambda tx: deployment_limit.set_limit(tx, body.max_running_task_runs))
    return get_limit(call)


@routes.add(
    "POST",
    "/api/doctor",
    "Check the deployment",
    scopes=(ADMIN,),
    is_for_all=True,
    body=DoctorRequest,
    is_body_optional=True,
    answer=DoctorAnswer,
    errors=(TooManyRequests,),
)
def run_doctor(call: Call, body: DoctorRequest) -> dict[str, Any]:
    """Check every part, as `pipeweave doctor` does, from where the API runs: what is wrong, and what to do
    about it. It takes 15 seconds at most, and changes nothing. While one checkup runs, another answers 429.
    """
    if not _checking.acquire(blocking=False):
        raise TooManyRequests("a checkup is under way", hint="wait for it: 15 seconds at most")
    try:
        return _examined(call)
    finally:
        _checking.release()


def _examined(call: Call) -> dict[str, Any]:
    ends, findings, is_complete = time.monotonic() + DOCTOR_LIMIT_S, list[dict[str, Any]](), True
    all_checks = checks.checks()
    for finding in doctor.examine(call.deployment.settings, all_checks, limit_s=CHECK_LIMIT_S):
        verdict = finding.verdict
        level = finding.level.value
        findings.append(CheckAnswer.of(finding, level=level, detail=verdict.line, hint=verdict.hint))
        if time.monotonic() >= ends and len(findings) < len(all_checks):
            is_complete = False
            break
    worst = max((each["level"] for each in findings), key=_BADNESS.index)
    return DoctorAnswer.of(status=worst, is_complete=is_complete, checks=findings)


@routes.add(
    "GET",
    "/api/history",
    "Show the months of history",
    scopes=(ADMIN,),
    is_for_all=True,
    answer=MonthsAnswer,
)
def get_history(call: Call) -> dict[str, Any]:
    """The months of history of all tenants in the tables, with their sizes, and when each may be dropped."""
    with call.reading() as tx:
        return history.months(tx, Policy.of(call.deployment.settings))


@routes.add(
    "POST",
    "/api/history/verify",
    "Verify a sample of the history",
    scopes=(ADMIN,),
    is_for_all=True,
    body=SampleRequest,
    is_body_optional=True,
    answer=SampleAnswer,
    errors=(TooManyRequests,),
)
def verify_history(call: Call, body: SampleRequest) -> dict[str, Any]:
    """Rebuild the newest runs of all tenants from their events and compare that with their rows, in 5 seconds
    at most. Nothing is changed or repaired. `pipeweave verify --all` takes all runs. While one sample is
    verified, another answers 429.
    """
    if not _verifying.acquire(blocking=False):
        raise TooManyRequests("a sample is being verified", hint="wait for it: 5 seconds at most")
    try:
        return history.sample(call.deployment.database, body.limit)
    finally:
        _verifying.release()
