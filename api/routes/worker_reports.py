"""Endpoints of HTTP workers: heartbeats, results, further upstream outputs, URLs.

The `runId` of a dispatch is signed and names one attempt, so these endpoints need no token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.api.contract.worker_reports import (
    CompletionAnswer,
    CompletionReport,
    HeartbeatAnswer,
    HeartbeatReport,
    NamedHeartbeatReport,
    UpstreamAnswer,
    UpstreamQuery,
    UrlsAnswer,
    UrlsRequest,
)
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import InvalidReport, NotFound, StaleReport, Unauthenticated, Unavailable
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.dispatch import Report, ReportReceiver, worker_reading

routes = Routes("workers")
DISPATCH = {"id": PathId(None, "The `runId` of the dispatch.")}


def _is_ours(deployment: Deployment, ids: Mapping[str, str]) -> None:
    """Check that this deployment made the id of a dispatch, before the report is read."""
    ReportReceiver(deployment.database, deployment.values, deployment.settings).check(ids["id"])


_ERRORS = (Unauthenticated, NotFound, Unavailable)
_END_ERRORS = (*_ERRORS, StaleReport, InvalidReport)
_PROGRESS = {"progress": 40, "message": "page 4 of 10"}
_SUCCESS = {"status": "success", "output": {"total": 42}}


@routes.add(
    "POST",
    "/api/task-runs/{id}/heartbeat",
    "Report that an attempt is alive",
    scopes=(),
    ids=DISPATCH,
    vouches=_is_ours,
    body=HeartbeatReport,
    is_body_optional=True,
    answer=HeartbeatAnswer,
    errors=_ERRORS,
    example=_PROGRESS,
)
def heartbeat(call: Call, id: str, body: HeartbeatReport) -> dict[str, Any]:
    """Store a heartbeat, and the progress if it has any.

    An attempt without a heartbeat for twice its `heartbeatIntervalMs` is given up and tried again. If the
    attempt is over, `shouldCancel` is true.
    """
    goes_on = _reports(call).heartbeat(id, body.progress, body.message)
    return {"acknowledged": goes_on, "shouldCancel": not goes_on}


@routes.add(
    "POST",
    "/api/heartbeat",
    "Report that an attempt is alive (older path)",
    scopes=(),
    body=NamedHeartbeatReport,
    answer=HeartbeatAnswer,
    errors=_ERRORS,
)
def heartbeat_alias(call: Call, body: NamedHeartbeatReport) -> dict[str, Any]:
    """The same as `POST /api/task-runs/{id}/heartbeat`, for workers that use this older path."""
    return heartbeat(call, body.run_id, body)


@routes.add(
    "POST",
    "/api/progress",
    "Report the progress of an attempt (older path)",
    scopes=(),
    body=NamedHeartbeatReport,
    answer=HeartbeatAnswer,
    errors=_ERRORS,
)
def progress_alias(call: Call, body: NamedHeartbeatReport) -> dict[str, Any]:
    """The same as `POST /api/task-runs/{id}/heartbeat`, for workers that use this older path."""
    return heartbeat(call, body.run_id, body)


@routes.add(
    "POST",
    "/api/task-runs/{id}/complete",
    "Report the end of an attempt",
    scopes=(),
    ids=DISPATCH,
    vouches=_is_ours,
    body=CompletionReport,
    answer=CompletionAnswer,
    errors=_END_ERRORS,
    example=_SUCCESS,
)
def complete(call: Call, id: str, body: CompletionReport) -> dict[str, Any]:
    """Store how an attempt ended; its run goes on. `pending` says that its work goes on elsewhere: the step
    waits, and completes with what comes to its callback URL, or with the answer of the URL that is polled.

    The answer is 200 when that is durable: send the report again until then. A report about an attempt that
    ended in another way, or was replaced, changes nothing and answers 409. If the result of a success cannot
    be used, the attempt has failed and the answer is 422.
    """
    reported = _reports(call).end(id, _report(body))
    return {
        "acknowledged": True,
        "isRepeated": reported.is_repeated,
        "retrying": reported.is_retrying,
    }


@routes.add(
    "POST",
    "/api/callback/{id}",
    "Report the end of an attempt (older path)",
    scopes=(),
    ids=DISPATCH,
    vouches=_is_ours,
    body=CompletionReport,
    answer=CompletionAnswer,
    errors=_END_ERRORS,
)
def complete_alias(call: Call, id: str, body: CompletionReport) -> dict[str, Any]:
    """The same as `POST /api/task-runs/{id}/complete`, for workers that use this older path."""
    return complete(call, id, body)


@routes.add(
    "GET",
    "/api/task-runs/{id}/upstream",
    "List further upstream outputs of an attempt",
    scopes=(),
    ids=DISPATCH,
    query=UpstreamQuery,
    answer=UpstreamAnswer,
    errors=(*_ERRORS, StaleReport),
)
def list_upstream(call: Call, id: str, query: UpstreamQuery) -> dict[str, Any]:
    """The outputs of the steps before the attempt's step that its dispatch had no room for."""
    return worker_reading.upstream_page(_reports(call), id, query.start)


@routes.add(
    "POST",
    "/api/task-runs/{id}/urls",
    "Make URLs for objects of an attempt",
    scopes=(),
    ids=DISPATCH,
    vouches=_is_ours,
    body=UrlsRequest,
    answer=UrlsAnswer,
    errors=(*_ERRORS, StaleReport),
    example={"put": ["report.pdf"]},
)
def make_urls(call: Call, id: str, body: UrlsRequest) -> dict[str, Any]:
    """Signed URLs for assets that the attempt is going to write, and for objects that it may read."""
    return worker_reading.urls(_reports(call), id, body.get, body.put)


def _reports(call: Call) -> ReportReceiver:
    deployment = call.deployment
    return ReportReceiver(deployment.database, deployment.values, deployment.settings)


def _report(body: CompletionReport) -> Report:
    assets = body.assets
    return Report(
        status=body.status,
        output=body.output,
        output_path=body.output_path,
        assets=None if assets is None else {key: each.model_dump() for key, each in assets.items()},
        logs_path=body.logs_path,
        selected_next=body.selected_next,
        suspend=body.suspend(),
        error=body.error,
        error_code=body.error_code,
        retryable=body.retryable,
        begun=body.begun,
        details=body.details,
        stack=body.stack,
    )
