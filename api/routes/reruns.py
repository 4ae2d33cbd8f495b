"""Endpoints of reruns: a run that ended, again; and many of them by a filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave import ids
from pipeweave.api.contract.requests import MAX_TOKEN
from pipeweave.api.contract.reruns import RerunAllAnswer, RerunAllRequest, RerunAnswer, RerunRequest
from pipeweave.api.http import Call, PathId, Routes, idempotency_header
from pipeweave.api.routes import input_checks
from pipeweave.errors import Conflict, InvalidInput, NotFound, PipeWeaveError, UploadNotUsable
from pipeweave.orchestrator import kept, reading
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.security import WRITE
from pipeweave.orchestrator.store import PageRequest
from pipeweave.spec import PipelineSpec

routes = Routes("runs")
RUN = {"id": PathId(ids.RUN, "The run that ended.")}


@routes.add(
    "POST",
    "/api/runs/{id}/rerun",
    "Run a run again",
    scopes=(WRITE,),
    ids=RUN,
    body=RerunRequest,
    is_body_optional=True,
    answer=RerunAnswer,
    errors=(NotFound, Conflict, UploadNotUsable),
    links=dict.fromkeys(("runs.get_run", "runs.cancel"), "/pipelineRunId"),
    longest_key=MAX_TOKEN,
    example={"fromStep": "report", "version": "same"},
)
def rerun(call: Call, id: str, body: RerunRequest) -> dict[str, Any]:
    """Start a new run that repeats one that has ended, however it ended, and is linked to it.

    With `fromStep`, that step and everything behind it run. The results of other steps are reused where they
    completed and nothing before them runs again; what had failed or was never reached runs, too. A map is
    reused as a whole. Another `version` is refused with 409 if it has changed a reused step; `errors` names
    the steps.

    Another `input` is that of the steps that run. Reused steps keep the results that they have; those that
    had read the other input are named in `edits.otherInput`. `params` replace those of the step to begin at,
    and no version is stored for them. A rerun of this run has them, too.

    Answers 409 while the run is open.
    """
    faults = input_checks.InputFaults()

    def check(spec: PipelineSpec, tasks: Mapping[str, TaskRow], value: Any) -> None:
        nonlocal faults
        faults = input_checks.faults_of(spec, tasks, value)
        input_checks.refuse(faults, body.validation_mode)

    request = rerunning.Rerun(
        ids.read(ids.RUN, id),
        body.from_step,
        rerunning.Edited(body.input) if "input" in body.model_fields_set else None,
        body.version,
        idempotency_header.of_body(call.key, body.run_token, "runToken"),
        call.cause.actor,
        call.traceparent,
        rerunning.EditedParams(body.params) if "params" in body.model_fields_set else None,
    )
    made = _made(call, request, None if body.validation_mode == "none" else check)
    answer = {
        "pipelineRunId": ids.show(ids.RUN, made.id),
        "tenant": call.tenant,
        "pipelineId": made.pipeline_id,
        "pipelineVersion": made.version,
        "status": made.status,
        "rerunOf": ids.show(ids.RUN, request.run_id),
        "fromStep": body.from_step,
        "reusedSteps": list(made.reused),
        "edits": reading.edits_shown(made.edits),
        "created": made.created,
    }
    return {**answer, "validationWarnings": faults.to_json()} if faults else answer


def _made(call: Call, request: rerunning.Rerun, check: rerunning.Check | None) -> rerunning.CreatedRerun:
    values = call.deployment.values
    return call.change(
        lambda tx: rerunning.rerun(tx, values, call.tenant, request, check=check), is_one=False
    )


@routes.add(
    "POST",
    "/api/runs/rerun-all",
    "Run many runs again",
    scopes=(WRITE,),
    body=RerunAllRequest,
    answer=RerunAllAnswer,
    longest_key=MAX_TOKEN,
    example={"status": "failed", "pipelineId": "nightly", "dryRun": True},
)
def rerun_all(call: Call, body: RerunAllRequest) -> dict[str, Any]:
    """Run those runs again that match all given filters, at most 100 with one request, the newest first.
    Each is written by itself: one that is refused has the reason, and the others run.

    `dryRun` lists what would run. `nextCursor` goes on with the older runs. With a `runToken` (or the header
    Idempotency-Key) the request can be repeated.
    """
    token = idempotency_header.of_body(call.key, body.run_token, "runToken")
    with call.reading() as tx:
        page = reading.run_list(
            tx,
            call.tenant,
            PageRequest(body.limit, body.cursor),
            kept.RunFilter(
                status=(body.status,),
                pipeline_id=() if body.pipeline_id is None else (body.pipeline_id,),
                created_after=body.created_after,
                created_before=body.created_before,
            ),
        )
    outcomes = [_outcome(call, each["id"], body, token) for each in page["items"]]
    return {"dryRun": body.dry_run, "runs": outcomes, "nextCursor": page["nextCursor"]}


def _outcome(call: Call, run_id: str, body: RerunAllRequest, token: str | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "runId": run_id,
        "pipelineRunId": None,
        "created": False,
        "errorCode": None,
        "error": None,
    }
    if body.dry_run:
        return shown
    request = rerunning.Rerun(
        ids.read(ids.RUN, run_id),
        body.from_step,
        None,
        body.version,
        token,
        call.cause.actor,
        call.traceparent,
    )
    try:
        made = _made(call, request, None)
    except (Conflict, NotFound, InvalidInput, UploadNotUsable) as error:
        return shown | {"errorCode": error.code, "error": _reason(error)}
    return shown | {"pipelineRunId": ids.show(ids.RUN, made.id), "created": made.created}


def _reason(error: PipeWeaveError) -> str:
    return str(error.detail)
