"""Read models of runs: a run as lists show it, and one run with its counts."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.parts import EditsAnswer
from pipeweave.orchestrator.documents.runs import KeptRun, Run
from pipeweave.orchestrator.domain import tracing, triggered_by
from pipeweave.orchestrator.domain.json_shapes import reference, run_took_ms
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.run_edits import NO_EDITS, RunEdits
from pipeweave.orchestrator.domain.run_ending import RunEnding
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.kept import outputs
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.reading import enqueued_runs, repairs, run_endings, run_hooks, task_runs
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest, cursor_of

# A run comes with this many task runs; further task runs are read page by page.
TASK_RUNS_SHOWN = 1_000

COLUMNS = """r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.status, r.failure_mode, r.priority,
r.metadata, r.task_run_count, r.error, r.error_code, r.created_at, r.started_at, r.finished_at, r.over_ms,
r.triggered_kind, r.triggered_id, r.triggered_actor, r.traceparent, r.rerun_of, r.rerun_from,
r.parent_run_id, r.root_run_id, r.depth, r.body, p.paused_at, p.paused_by, p.reason AS pause_reason"""
PAUSE = "LEFT JOIN run_pauses AS p ON p.run_id = r.id"
FROM = f"FROM runs AS r {PAUSE}"


def run_row(row: Any, answer: type[KeptRun] = KeptRun) -> Document:
    """A run as its row has it, also that of a partition which was detached before some columns existed."""
    cause = triggered_by.of_row(row)
    return answer.of(
        row,
        tenant=row.tenant_id,
        triggered_by=cause and cause.to_json(),
        rerun_of=getattr(row, "rerun_of", None),
        rerun_from=getattr(row, "rerun_from", None),
        parent_run_id=getattr(row, "parent_run_id", None),
        root_run_id=getattr(row, "root_run_id", None),
        depth=getattr(row, "depth", None) or 0,
        body=getattr(row, "body", None),
        trace_id=tracing.trace_id(row.id, getattr(row, "traceparent", None)),
        started_utc=row.started_at,
        ended_utc=row.finished_at,
        duration_ms=run_took_ms(row),
    )


def listed_row(row: Any) -> Document:
    """A run that may be open, with its pause."""
    return run_row(row, Run)


def edits_row(row: Any) -> Document | None:
    """What was edited for a run, as its row has it; None if nothing was. Lists leave it out, as it may be
    long.
    """
    return edits_shown(RunEdits.of_json(getattr(row, "edits", None)))


def edits_shown(edits: RunEdits) -> Document | None:
    """What was edited for a run; None if nothing was."""
    if edits == NO_EDITS:
        return None
    return EditsAnswer.of(params=dict(edits.params), other_input=sorted(edits.seen))


# --- one run ----------------------------------------------------------------------------------------------

_RUN = f"""
SELECT {COLUMNS}, r.input, r.input_path, r.input_size, r.inputs_hash, r.edits, r.reopened_at,
       r.quiet_since, r.ending,
       (SELECT e.type FROM events AS e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1) AS latest_event
{FROM} WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""

_COUNTS = """
SELECT t.status, count(*) AS number FROM task_runs AS t WHERE t.run_id = :id
GROUP BY t.status ORDER BY t.status
"""


def run(tx: Transaction, tenant: str, id: UUID, *, load: bool = False, shown: int | None = None) -> Document:
    """One run: input, counts by status, first 1,000 task runs, phase, and the outputs of its end steps.

    Args:
        shown: how many task runs it has at most, from 0; None for TASK_RUNS_SHOWN.
        load: hold a StoredValue for each large value (`load_values` loads it); otherwise
            `inputRef` and `outputRefs` say where they are.

    Raises:
        NotFound: the tenant has no such run; an enqueued one has an error of its own.
        LimitExceeded: the values are too large to be loaded.
    """
    row = tx.execute(_RUN, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise enqueued_runs.missing(tx, tenant, id)
    first, loading = _first_task_runs(tx, id, TASK_RUNS_SHOWN if shown is None else shown), Loading(load)
    is_stored = row.input_path is not None and not load
    return {
        **listed_row(row),
        "phase": phase(row.status, row.latest_event, is_quiet=row.quiet_since is not None),
        "overMs": row.over_ms or 0,
        "ending": run_endings.of_run(tx, id, row.status),
        "endingParts": _ending_parts(tx, row),
        "input": loading.value_of(row.input, row.input_path, row.input_size),
        "inputRef": reference(row.input_path, row.input_size, row.inputs_hash) if is_stored else None,
        "inputsHash": row.inputs_hash,
        "edits": edits_row(row),
        "counts": _counts(tx, id, first),
        "taskRuns": first["items"],
        "taskRunsCursor": first["nextCursor"],
        "hooks": run_hooks.of_run(tx, id),
        "ranBefore": [] if row.reopened_at is None else repairs.ran_before(tx, id, _plan(tx, row)),
        **outputs.of_run(tx, tenant, row, loading),
    }


def _ending_parts(tx: Transaction, row: Any) -> list[Document]:
    if row.ending is None:
        return []
    return run_endings.parts(tx, row.id, _plan(tx, row), RunEnding.of_json(row.ending))


def _plan(tx: Transaction, row: Any) -> Plan:
    return pipelines.of_run(tx, row).plan


def _first_task_runs(tx: Transaction, id: UUID, number: int) -> Document:
    if number == 0:
        # The id of the run is below those of its task runs: the page after it is the first.
        return {"items": [], "nextCursor": cursor_of("task-runs", id)}
    return task_runs.of_run(tx, id, PageRequest(number))


def _counts(tx: Transaction, id: UUID, shown: Document) -> dict[str, int]:
    if shown["nextCursor"] is None:
        return dict(sorted(Counter(each["status"] for each in shown["items"]).items()))
    return {each.status: each.number for each in tx.execute(_COUNTS, {"id": id})}


# Event type -> phase: what a running run does, in more detail than its status.
PHASES = {
    "task_run.started": "step_executing",
    "task_run.completed": "step_success",
    "task_run.failed": "step_failed",
    "task_run.timed_out": "step_failed",
    "task_run.retrying": "retrying",
    "task_run.handling": "error_handling",
}


def phase(status: str, latest_event: str | None, *, is_quiet: bool = False) -> str:
    """The phase of a run: for a running run the phase of its latest event if it has one, else the status. A
    run of which nothing works is `paused`.
    """
    if status != RunStatus.RUNNING or latest_event is None:
        return status
    if is_quiet:
        return RunStatus.PAUSED.value
    return PHASES.get(latest_event, status)


_OWNED = "SELECT traceparent FROM runs WHERE id = :id AND tenant_id = :tenant AND pipeline_id IS NOT NULL"


def require_run(tx: Transaction, tenant: str, id: UUID) -> str | None:
    """Check that a tenant has a run, and return the trace context that it was triggered with.

    Raises:
        NotFound: the tenant has no such run.
    """
    row = tx.execute(_OWNED, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise enqueued_runs.missing(tx, tenant, id)
    traceparent: str | None = row.traceparent
    return traceparent


_ROOT = "SELECT root_run_id FROM runs WHERE id = :id AND tenant_id = :tenant AND pipeline_id IS NOT NULL"


def root_of(tx: Transaction, tenant: str, id: UUID) -> UUID:
    """The first run of the tree that a run is in; itself, if it has no parent.

    Raises:
        NotFound: the tenant has no such run.
    """
    row = tx.execute(_ROOT, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise enqueued_runs.missing(tx, tenant, id)
    root: UUID = row.root_run_id or id
    return root


def run_task_runs(
    tx: Transaction,
    tenant: str,
    id: UUID,
    page: PageRequest,
    *,
    status: str | None = None,
    step_id: str | None = None,
    map_index: int | None = None,
) -> Document:
    """A run's task runs in the order of their ordinals (steps, then items): {items, nextCursor}.

    Raises:
        NotFound: the tenant has no such run.
    """
    require_run(tx, tenant, id)
    return task_runs.of_run(tx, id, page, status=status, step_id=step_id, map_index=map_index)
