"""Endpoints that answer questions about a run: its attempts and their logs, how it differs from another run,
whether its rows agree with its events, and why it does not go on.
"""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract.query_parameters import AttemptsQuery, CompareQuery, PageQuery
from pipeweave.api.contract.run_logs import RunLogsQuery
from pipeweave.api.contract.run_questions import StateAtQuery, VerifyRequest
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import LimitExceeded, NotFound, Unavailable
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.diagnosis import rebuilding, run_verification, why_run
from pipeweave.orchestrator.documents.checkpoints import CheckpointDetail, CheckpointList
from pipeweave.orchestrator.documents.comparisons import RunComparison
from pipeweave.orchestrator.documents.run_logs import RunLogs
from pipeweave.orchestrator.documents.run_questions import RunAt, RunForecast, RunVerification, RunWhyAnswer
from pipeweave.orchestrator.documents.task_runs import AttemptList
from pipeweave.orchestrator.security import READ

routes = Routes("runs")
RUN = {"id": PathId(ids.RUN, "The run's id.")}
CHECKPOINT = {**RUN, "checkpoint": PathId(None, "The checkpoint's id.")}
RUNS = {"id": PathId(ids.RUN, "The run on the left."), "other": PathId(ids.RUN, "The run on the right.")}


@routes.add(
    "GET",
    "/api/runs/{id}/attempts",
    "List a run's attempts",
    ids=RUN,
    query=AttemptsQuery,
    answer=AttemptList,
    errors=(NotFound,),
)
def list_attempts(call: Call, id: str, query: AttemptsQuery) -> dict[str, Any]:
    """Every attempt that began, also those that run and that completed, in the order of the task runs."""
    with call.reading() as tx:
        page = reading.run_attempts(tx, call.tenant, ids.read(ids.RUN, id), query.page(), **query.filters())
        return query.named("attempts", page)


@routes.add(
    "GET",
    "/api/runs/{id}/logs",
    "Read the log of a run",
    ids=RUN,
    query=RunLogsQuery,
    answer=RunLogs,
    errors=(NotFound, Unavailable),
)
def run_logs(call: Call, id: str, query: RunLogsQuery) -> dict[str, Any]:
    """What all attempts of a run have logged, by time, also while it runs.

    The logs of at most 50 attempts are read, each to 200 kB from its end at least, and 10 MB of them all:
    those of the attempts that failed, then of those that began last. `attemptsRead` says how many.
    """
    wanted, deployment = query.wanted(), call.deployment
    backends, secret_key = deployment.values.backends, deployment.settings.secret_key
    with call.reading() as tx:
        run_id = ids.read(ids.RUN, id)
        chosen = reading.chosen_logs(tx, call.tenant, run_id, backends, secret_key, step_id=wanted.step_id)
    page = reading.read_run_logs(backends, chosen, query.page(), wanted, deployment.log_endings)
    return query.named("logs", page) | {
        name: page[name] for name in ("attempts", "attemptsRead", "isCut", "isComplete")
    }


@routes.add(
    "GET",
    "/api/runs/{id}/compare/{other}",
    "Compare two runs",
    ids=RUNS,
    query=CompareQuery,
    answer=RunComparison,
    errors=(NotFound,),
)
def compare(call: Call, id: str, other: str, query: CompareQuery) -> dict[str, Any]:
    """Two runs of one pipeline beside each other, of whatever versions: where their inputs differ, and for
    each step its durations, statuses, attempts, and whether it gave the same.
    """
    left, right = ids.read(ids.RUN, id), ids.read(ids.RUN, other)
    with call.reading() as tx:
        return reading.compare_runs(tx, call.tenant, left, right, limit=query.limit)


@routes.add(
    "POST",
    "/api/runs/{id}/verify",
    "Verify a run",
    scopes=(READ,),
    ids=RUN,
    body=VerifyRequest,
    is_body_optional=True,
    answer=RunVerification,
    errors=(NotFound, LimitExceeded),
)
def verify(call: Call, id: str, body: VerifyRequest) -> dict[str, Any]:
    """Rebuild a run from its events and compare that with its rows. Nothing is changed or repaired.

    Runs of more than 20,000 events or 100,000 task runs are refused: `pipeweave verify` takes them.
    """
    with call.reading() as tx:
        return run_verification.verified(tx, call.tenant, ids.read(ids.RUN, id))


@routes.add(
    "GET",
    "/api/runs/{id}/why",
    "Say why a run does not go on",
    ids=RUN,
    answer=RunWhyAnswer,
    errors=(NotFound,),
)
def why(call: Call, id: str) -> dict[str, Any]:
    """The reasons of its open task runs, summed. Task runs of one task that wait in the same way are one
    reason, of which one task run was asked.
    """
    with call.reading() as tx:
        is_serverless = call.deployment.settings.mode == "serverless"
        oldest = call.deployment.publisher.oldest
        return why_run.why_run(tx, call.tenant, ids.read(ids.RUN, id), oldest, is_serverless=is_serverless)


@routes.add(
    "GET",
    "/api/runs/{id}/forecast",
    "Forecast the end of a run",
    ids=RUN,
    answer=RunForecast,
    errors=(NotFound,),
)
def forecast(call: Call, id: str) -> dict[str, Any]:
    """When an open run will probably end: what is left of its steps, as long as each usually takes, over its
    graph. Waits for workers and limits are not in it.
    """
    with call.reading() as tx:
        return reading.run_forecast(tx, call.tenant, ids.read(ids.RUN, id))


@routes.add(
    "GET",
    "/api/runs/{id}/at",
    "Show a run as it was at an event",
    ids=RUN,
    query=StateAtQuery,
    answer=RunAt,
    errors=(NotFound, LimitExceeded),
)
def state_at(call: Call, id: str, query: StateAtQuery) -> dict[str, Any]:
    """The statuses of a run and its steps after its events up to one, rebuilt from these events alone."""
    with call.reading() as tx:
        return rebuilding.rebuilt_at(tx, call.tenant, ids.read(ids.RUN, id), query.seq)


@routes.add(
    "GET",
    "/api/runs/{id}/checkpoints",
    "List a run's checkpoints",
    ids=RUN,
    query=PageQuery,
    answer=CheckpointList,
    errors=(NotFound,),
)
def list_checkpoints(call: Call, id: str, query: PageQuery) -> dict[str, Any]:
    """The events after which the run stood still, oldest first: it began, something of it ended or waits, or
    it was paused. They are a view of its event log: what was done by then is durable.
    """
    with call.reading() as tx:
        return query.named(
            "checkpoints", reading.checkpoints(tx, call.tenant, ids.read(ids.RUN, id), query.page())
        )


@routes.add(
    "GET",
    "/api/runs/{id}/checkpoints/{checkpoint}",
    "Show a checkpoint of a run",
    ids=CHECKPOINT,
    answer=CheckpointDetail,
    errors=(NotFound, LimitExceeded),
)
def get_checkpoint(call: Call, id: str, checkpoint: str) -> dict[str, Any]:
    """A checkpoint with the state of the run, rebuilt from the events up to it."""
    run_id, seq = ids.read(ids.RUN, id), _seq(checkpoint)
    with call.reading() as tx:
        shown = reading.checkpoint(tx, call.tenant, run_id, seq)
        return {**shown, "state": rebuilding.rebuilt_at(tx, call.tenant, run_id, seq)}


def _seq(text: str) -> int:
    """The number of the event of a checkpoint.

    Raises:
        NotFound: it is no number of an event.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise NotFound(f"no run has a checkpoint {text[:80]!r}", hint="checkpoints have numbers as their ids")
    return int(text)
