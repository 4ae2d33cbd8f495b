"""Says what became of a run that a caller enqueued and that is not there."""

from __future__ import annotations

from uuid import UUID

from pipeweave.errors import NotFound, RunEnqueued, RunRefused, RunTokenTaken
from pipeweave.orchestrator.domain.json_shapes import iso, run_id
from pipeweave.orchestrator.store.database import Transaction

_ENQUEUED = """
SELECT e.pipeline_id, e.enqueued_at, e.error_code, e.error, e.settled_at, e.first_run_id
FROM enqueued_runs AS e WHERE e.id = :id AND e.tenant_id = :tenant
"""


def missing(tx: Transaction, tenant: str, id: UUID) -> NotFound:
    """The error for a run that does not exist, or belongs to another tenant.

    An enqueued run has an error of its own: RunEnqueued until it starts, RunRefused if it never will, and
    RunTokenTaken if its token is of a run before.
    """
    shown = run_id(id)
    row = tx.execute(_ENQUEUED, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        return NotFound(f"run {shown} not found", runId=shown)
    context = {"runId": shown, "pipelineId": row.pipeline_id, "enqueuedAt": iso(row.enqueued_at)}
    if row.first_run_id is not None:
        first = run_id(row.first_run_id)
        return RunTokenTaken(
            f"run {shown} was not started: run {first} has the same run token, pipeline and input",
            hint=f"look at run {first}",
            firstRunId=first,
            **context,
        )
    if row.settled_at is not None:
        return RunRefused(
            f"the enqueued run {shown} could not start: {row.error_code}: {row.error}",
            hint="mend what it says, and enqueue the run again",
            reasonCode=row.error_code,
            **context,
        )
    tried = "" if row.error_code is None else f"; the last try ended with {row.error_code}: {row.error}"
    return RunEnqueued(
        f"run {shown} is enqueued and has not started{tried}",
        hint="a beat, or a tick of a serverless deployment, starts it",
        reasonCode=row.error_code,
        **context,
    )
