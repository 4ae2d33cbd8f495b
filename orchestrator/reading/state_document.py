"""Reads the whole state of a run as one document, of one moment: each step with its result, errors, numbers.

Its size is bounded, whatever the run is: there are at most MAX_STEPS steps; maps are counts with their first
failed items; results are by value only while they are few bytes together; texts of errors are cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import error_kinds, ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.documents.parts import MapReference, Reference
from pipeweave.orchestrator.documents.run_state import (
    FailedTaskRun,
    RunMetrics,
    RunState,
    RunStateError,
    StateError,
    StateItems,
    StateMetadata,
    StateTrigger,
    StepState,
)
from pipeweave.orchestrator.domain import kind_sql, tracing
from pipeweave.orchestrator.domain.failure import TIMEOUT_MS
from pipeweave.orchestrator.domain.json_shapes import (
    duration_ms,
    reference,
    run_id,
    run_took_ms,
    task_run_id,
)
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.kept.given_hashes import GivenHashes
from pipeweave.orchestrator.reading import enqueued_runs, map_items, runs_of_steps
from pipeweave.orchestrator.reading import steps as step_reading
from pipeweave.orchestrator.reading.map_items import ERROR, MESSAGE_CHARS, MapItems
from pipeweave.orchestrator.reading.runs import edits_row, phase
from pipeweave.orchestrator.reading.runs_of_steps import NO_RUN, RunOfStep, seen_row
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import WITH_ITEMS, PipelineSpec, error_rules, references

# Results by value, together (bytes of JSON); what is beyond is by reference.
RESULT_BYTES = 2_000_000
# Errors that the document lists.
ERRORS_SHOWN = 100

_RUN = """
SELECT r.*, l.type AS latest_event, l.at AS updated_at,
       (SELECT count(*) FROM attempts AS a
        WHERE a.run_id = r.id AND a.status IN ('failed', 'timeout', 'lost')) AS errors
FROM runs AS r LEFT JOIN LATERAL (
    SELECT e.type, e.at FROM events AS e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1) AS l ON true
WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""

# A run's steps have its lowest ordinals: this bound keeps PostgreSQL from reading its map items.
_STEPS = f"""
SELECT t.id, t.step_id, t.task_id, t.kind, t.status, t.attempt, t.max_attempts, t.progress, t.worker,
       t.map_count, t.error_code, {ERROR}, t.due_at, t.started_at, t.finished_at, t.selected_next,
       t.output_path, t.output_size, t.output_hash, t.cached_from, t.idempotency_key, t.logs_path,
       b.is_shown, CASE WHEN b.is_shown THEN t.output END AS output
FROM task_runs AS t JOIN (
    SELECT t.id, t.output_path IS NULL AND sum(CASE WHEN t.output_path IS NULL THEN t.output_size END)
        OVER (ORDER BY t.id) <= :budget AS is_shown
    FROM task_runs AS t WHERE t.run_id = :id AND t.id <= :last AND {kind_sql.IS_STEP}) AS b ON b.id = t.id
WHERE t.run_id = :id AND t.id <= :last ORDER BY t.id
"""


def run_state(tx: Transaction, tenant: str, id: UUID) -> Document:
    """The state of a run, open or final: {trigger, variables, steps by id, errors, metrics, metadata, …}.

    Args:
        tx: a transaction of `Database.reading`; it becomes one snapshot.

    Raises:
        NotFound: the tenant has no such run, or its month was dropped.
    """
    tx.hold()
    tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    row: Any = tx.execute(_RUN, {"id": id, "tenant": tenant}).one_or_none()
    if row is None:
        raise enqueued_runs.missing(tx, tenant, id)
    stored = pipelines.of_run(tx, row)
    rows = tx.execute(
        _STEPS, {"id": id, "last": ids.task_run_id(id, MAX_STEPS), "budget": RESULT_BYTES}
    ).all()
    items = map_items.read(tx, id) if any(each.kind in WITH_ITEMS for each in rows) else map_items.NONE
    firsts = step_reading.first_starts(tx, id, [each.id for each in rows if each.attempt > 1])
    outputs = {each.step_id: items.hashes.get(ids.ordinal_of(each.id), each.output_hash) for each in rows}
    input_hashes = GivenHashes.of_run(row, stored.spec)
    inside = runs_of_steps.of_task_runs(tx, id, map(seen_row, rows))
    steps = {
        each.step_id: _step(each, items, firsts, input_hashes, outputs, inside.get(each.id, NO_RUN))
        for each in rows
    }
    return RunState.of(
        row,
        tenant=row.tenant_id,
        phase=_phase(row, rows),
        trace_id=tracing.trace_id(row.id, row.traceparent),
        edits=edits_row(row),
        trigger=_trigger(row),
        variables=_variables(row, stored.spec),
        steps=steps,
        is_complete=len(steps) == len(stored.plan.steps),
        error=_run_error(row),
        errors=_errors(rows, items),
        metadata=StateMetadata.of(
            row,
            updated_at=row.updated_at or row.finished_at or row.started_at or row.created_at,
            completed_at=row.finished_at,
            duration_ms=run_took_ms(row, row.updated_at),
            custom=row.metadata,
        ),
        metrics=_metrics(row, rows, steps, items),
    )


def _phase(row: Any, rows: Sequence[Any]) -> str:
    is_handling = any(each.status == "waiting" and each.error_code is not None for each in rows)
    if is_handling and row.status == RunStatus.RUNNING:
        return RunStatus.ERROR_HANDLING.value
    return phase(row.status, row.latest_event, is_quiet=row.quiet_since is not None)


def _variables(row: Any, spec: PipelineSpec) -> dict[str, Any]:
    """The run's input, and the variables of its pipeline, as far as their values can be told."""
    is_here = row.input_path is None
    known = spec.variables if is_here else error_rules.constants_of(spec.variables)
    values: dict[str, Any] = {}
    for name, written in known.items():
        try:
            values[name] = references.resolve(written, input=row.input, steps={})
        except PipeWeaveError:
            # The input lacks what it is made of: each step that refers to it fails.
            continue
    return {**values, "input": row.input}


def _trigger(row: Any) -> Document:
    return StateTrigger.of(
        type=row.triggered_kind,
        id=row.triggered_id,
        actor=row.triggered_actor,
        payload=row.input,
        payload_ref=reference(row.input_path, row.input_size, row.inputs_hash),
        timestamp=row.created_at,
    )


def _run_error(row: Any) -> Document | None:
    if row.error_code is None:
        return None
    error = row.error if isinstance(row.error, dict) else {}
    message, details = error.get("message"), error.get("details")
    return RunStateError.of(
        code=row.error_code,
        message=None if message is None else str(message)[:MESSAGE_CHARS],
        timeout_ms=_number(details.get(TIMEOUT_MS)) if isinstance(details, dict) else None,
    )


def _number(value: Any) -> int | None:
    """A number of the details of an error; what a task has put there may be anything."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- steps ------------------------------------------------------------------------------------------------

# The words of a step's progress; `retrying` is said of one that waits for its next attempt.
_PHASES = {
    "pending": "pending",
    "ready": "pending",
    "queued": "pending",
    "running": "running",
    "waiting": "running",
    "completed": "success",
    "failed": "failed",
    "timeout": "failed",
}


def _step(
    row: Any,
    items: MapItems,
    firsts: Mapping[UUID, datetime],
    input_hashes: GivenHashes,
    outputs: Mapping[str, str | None],
    inside: RunOfStep,
) -> Document:
    ordinal = ids.ordinal_of(row.id)
    is_again = row.attempt > 1 and row.status in ("pending", "ready", "queued")
    is_completed = row.status == "completed"
    return StepState.of(
        row,
        task_run_id=row.id,
        phase="retrying" if is_again else _PHASES.get(row.status, row.status),
        attempts=row.attempt if row.started_at is not None else row.attempt - 1,
        retry_count=row.attempt - 1,
        due_at=row.due_at if row.status == "pending" else None,
        started_at=firsts.get(row.id) or row.started_at,
        completed_at=row.finished_at,
        duration_ms=duration_ms(row.started_at, row.finished_at),
        result=row.output if is_completed else None,
        result_ref=_result_ref(row, items.counts.get(ordinal, {})) if is_completed else None,
        error=_error(row),
        inputs_hash=input_hashes.of(row.step_id, row.kind, outputs),
        outputs_hash=outputs[row.step_id] if is_completed else None,
        child_run_id=inside.run,
        round=inside.round,
        items=_items_of(row, items) if row.kind in WITH_ITEMS else None,
        logs_ref=logs_ref(row.id),
        metrics_ref=metrics_ref(row.id, row.step_id),
    )


def logs_ref(task_run: UUID) -> str:
    """Where the log of a task run is found."""
    return f"/api/task-runs/{task_run_id(task_run)}/logs"


def metrics_ref(task_run: UUID, step_id: str) -> str:
    """Where the numbers of a task run are found."""
    pointer = step_id.replace("~", "~0")
    return f"/api/runs/{run_id(ids.run_id_of(task_run))}/state#/steps/{pointer}"


def _result_ref(row: Any, counts: Mapping[str, Any]) -> Document | None:
    if row.kind in WITH_ITEMS and row.output_hash is None:
        return MapReference.of(items=row.map_count or 0, size=counts.get("size", 0))
    if row.output_path is None and not row.is_shown and row.output_size is not None:
        return Reference.of(path=None, backend=None, size=row.output_size, hash=row.output_hash)
    return reference(row.output_path, row.output_size, row.output_hash)


def _error(row: Any) -> Document | None:
    if row.error_code is None:
        return None
    is_retryable = None if row.is_retryable is None else row.is_retryable == "true"
    has_failed = row.error_type is not None or row.error_message is not None
    return StateError.of(
        code=row.error_code,
        type=row.error_type,
        kind=error_kinds.kind_of(row.error_code, row.attempt) if has_failed else None,
        message=row.error_message,
        retryable=is_retryable,
        timeout_ms=_number(row.timeout_ms),
    )


# --- items ------------------------------------------------------------------------------------------------


def _items_of(row: Any, items: MapItems) -> Document:
    ordinal = ids.ordinal_of(row.id)
    run = run_id(ids.run_id_of(row.id))
    return StateItems.of(
        total=row.map_count or 0,
        counts=dict(sorted(items.counts.get(ordinal, {}).get("statuses", {}).items())),
        failed=[_failed(each) for each in items.failed.get(ordinal, ())],
        href=f"/api/runs/{run}/task-runs?stepId={row.step_id}",
    )


def _failed(row: Any) -> Document:
    return FailedTaskRun.of(
        row,
        task_run_id=row.id,
        map_index=getattr(row, "map_index", None),
        error=_error(row),
        handled=row.status == "completed",
        at=row.finished_at,
    )


# --- sums -------------------------------------------------------------------------------------------------


def _errors(rows: Sequence[Any], items: MapItems) -> list[Document]:
    """The task runs that failed for good, also those whose error was handled, in the order in which they
    ended; the first ERRORS_SHOWN.
    """
    failures = [each for each in rows if each.status in _FAILED or seen_row(each).is_handled]
    failures += [each for several in items.failed.values() for each in several]
    in_order = sorted(failures, key=lambda each: (each.finished_at is None, each.finished_at, each.id))
    return [_failed(each) for each in in_order][:ERRORS_SHOWN]


_FAILED = ("failed", "timeout")


def _metrics(row: Any, rows: Sequence[Any], steps: Mapping[str, Document], items: MapItems) -> Document:
    def of_items(name: str) -> int:
        return sum(each[name] for each in items.counts.values())

    misses = [each.idempotency_key and not each.cached_from and each.status == "completed" for each in rows]
    return RunMetrics.of(
        row,
        total_duration_ms=run_took_ms(row),
        step_count=len(rows),
        step_durations={
            name: each["durationMs"] for name, each in steps.items() if each["durationMs"] is not None
        },
        retry_count=sum(each.attempt - 1 for each in rows) + of_items("retries"),
        error_count=row.errors,
        cache_hits=sum(each.cached_from is not None for each in rows) + of_items("hits"),
        cache_misses=sum(map(bool, misses)) + of_items("misses"),
    )
