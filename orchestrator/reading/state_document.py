"""Reads the whole state of a run as one document, of one moment: each step with its result, errors, numbers.

Its size is bounded, whatever the run is: there are at most MAX_STEPS steps; maps are counts with their first
failed items; results are by value only while they are few bytes together; texts of errors are cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql, tracing, triggered_by
from pipeweave.orchestrator.domain.json_shapes import (
    duration_ms,
    iso,
    reference,
    run_id,
    run_took_ms,
    task_run_id,
)
from pipeweave.orchestrator.kept.given_hashes import GivenHashes
from pipeweave.orchestrator.reading import enqueued_runs, map_items
from pipeweave.orchestrator.reading import steps as step_reading
from pipeweave.orchestrator.reading.map_items import ERROR, MESSAGE_CHARS, MapItems
from pipeweave.orchestrator.reading.runs import phase
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import WITH_ITEMS

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
    stored = pipelines.get(tx, tenant, row.pipeline_id, row.pipeline_version)
    rows = tx.execute(
        _STEPS, {"id": id, "last": ids.task_run_id(id, MAX_STEPS), "budget": RESULT_BYTES}
    ).all()
    items = map_items.read(tx, id) if any(each.kind in WITH_ITEMS for each in rows) else map_items.NONE
    firsts = step_reading.first_starts(tx, id, [task_run_id(each.id) for each in rows if each.attempt > 1])
    outputs = {each.step_id: items.hashes.get(ids.ordinal_of(each.id), each.output_hash) for each in rows}
    input_hashes = GivenHashes(row.inputs_hash, stored.spec.by_id)
    steps = {each.step_id: _step(each, items, firsts, input_hashes, outputs) for each in rows}
    return {
        **_run(row),
        "variables": {"input": row.input},
        "steps": steps,
        "isComplete": len(steps) == len(stored.plan.steps),
        "errors": _errors(rows, items),
        "metrics": _metrics(row, rows, steps, items),
    }


def _run(row: Any) -> Document:
    cause = triggered_by.of_row(row)
    return {
        "id": run_id(row.id),
        "tenant": row.tenant_id,
        "pipelineId": row.pipeline_id,
        "pipelineVersion": row.pipeline_version,
        "status": row.status,
        "phase": phase(row.status, row.latest_event),
        "traceId": tracing.trace_id(row.id, row.traceparent),
        "inputsHash": row.inputs_hash,
        "trigger": {
            "type": None if cause is None else cause.kind,
            "id": None if cause is None else cause.id,
            "actor": None if cause is None else cause.actor,
            "payload": row.input,
            "payloadRef": reference(row.input_path, row.input_size, row.inputs_hash),
            "timestamp": iso(row.created_at),
        },
        "error": None if row.error_code is None else {"code": row.error_code, **_message(row.error)},
        "metadata": {
            "createdAt": iso(row.created_at),
            "startedAt": iso(row.started_at),
            "updatedAt": iso(row.updated_at or row.finished_at or row.started_at or row.created_at),
            "completedAt": iso(row.finished_at),
            "durationMs": run_took_ms(row, row.updated_at),
            "custom": row.metadata,
        },
    }


def _message(error: Any) -> Document:
    message = error.get("message") if isinstance(error, dict) else None
    return {"message": None if message is None else str(message)[:MESSAGE_CHARS]}


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
    firsts: Mapping[str, str | None],
    input_hashes: GivenHashes,
    outputs: Mapping[str, str | None],
) -> Document:
    shown, ordinal = task_run_id(row.id), ids.ordinal_of(row.id)
    is_again = row.attempt > 1 and row.status in ("pending", "ready", "queued")
    is_completed = row.status == "completed"
    return {
        "stepId": row.step_id,
        "taskRunId": shown,
        "taskId": row.task_id,
        "kind": row.kind,
        "status": row.status,
        "phase": "retrying" if is_again else _PHASES.get(row.status, row.status),
        "attempts": row.attempt if row.started_at is not None else row.attempt - 1,
        "maxAttempts": row.max_attempts,
        "retryCount": row.attempt - 1,
        "progress": row.progress,
        "worker": row.worker,
        "dueAt": iso(row.due_at) if row.status == "pending" else None,
        "startedAt": firsts.get(shown) or iso(row.started_at),
        "completedAt": iso(row.finished_at),
        "durationMs": duration_ms(row.started_at, row.finished_at),
        "result": row.output if is_completed else None,
        "resultRef": _result_ref(row, items.counts.get(ordinal, {})) if is_completed else None,
        "selectedNext": row.selected_next,
        "error": _error(row),
        "inputsHash": input_hashes.of(row.step_id, row.kind, outputs),
        "outputsHash": outputs[row.step_id] if is_completed else None,
        "cachedFrom": row.cached_from and task_run_id(row.cached_from),
        "items": _items_of(row, items) if row.kind in WITH_ITEMS else None,
        **places_of(row.id, row.step_id),
    }


def places_of(task_run: UUID, step_id: str) -> Document:
    """Where the log and the numbers of a task run are found."""
    run = run_id(ids.run_id_of(task_run))
    pointer = step_id.replace("~", "~0")
    return {
        "logsRef": f"/api/task-runs/{task_run_id(task_run)}/logs",
        "metricsRef": f"/api/runs/{run}/state#/steps/{pointer}",
    }


def _result_ref(row: Any, counts: Mapping[str, Any]) -> Document | None:
    if row.kind in WITH_ITEMS:
        return {"items": row.map_count or 0, "size": counts.get("size", 0)}
    if row.output_path is None and not row.is_shown and row.output_size is not None:
        return {"path": None, "backend": None, "size": row.output_size, "hash": row.output_hash}
    return reference(row.output_path, row.output_size, row.output_hash)


def _error(row: Any) -> Document | None:
    if row.error_code is None:
        return None
    is_retryable = None if row.is_retryable is None else row.is_retryable == "true"
    return {
        "code": row.error_code,
        "type": row.error_type,
        "message": row.error_message,
        "retryable": is_retryable,
    }


# --- items ------------------------------------------------------------------------------------------------


def _items_of(row: Any, items: MapItems) -> Document:
    ordinal = ids.ordinal_of(row.id)
    run = run_id(ids.run_id_of(row.id))
    return {
        "total": row.map_count or 0,
        "counts": dict(sorted(items.counts.get(ordinal, {}).get("statuses", {}).items())),
        "failed": [_failed(each) for each in items.failed.get(ordinal, ())],
        "href": f"/api/runs/{run}/task-runs?stepId={row.step_id}",
    }


def _failed(row: Any) -> Document:
    return {
        "stepId": row.step_id,
        "taskRunId": task_run_id(row.id),
        "mapIndex": getattr(row, "map_index", None),
        "attempt": row.attempt,
        "error": _error(row),
        "at": iso(row.finished_at),
    }


# --- sums -------------------------------------------------------------------------------------------------


def _errors(rows: Sequence[Any], items: MapItems) -> list[Document]:
    """The task runs that failed for good, in the order in which they failed; the first ERRORS_SHOWN."""
    failures = [each for each in rows if each.status in ("failed", "timeout")]
    failures += [each for several in items.failed.values() for each in several]
    return [_failed(each) for each in sorted(failures, key=lambda each: (each.finished_at, each.id))][
        :ERRORS_SHOWN
    ]


def _metrics(row: Any, rows: Sequence[Any], steps: Mapping[str, Document], items: MapItems) -> Document:
    def of_items(name: str) -> int:
        return sum(each[name] for each in items.counts.values())

    misses = [each.idempotency_key and not each.cached_from and each.status == "completed" for each in rows]
    return {
        "totalDurationMs": run_took_ms(row),
        "stepCount": len(rows),
        "taskRunCount": row.task_run_count,
        "stepDurations": {
            name: each["durationMs"] for name, each in steps.items() if each["durationMs"] is not None
        },
        "retryCount": sum(each.attempt - 1 for each in rows) + of_items("retries"),
        "errorCount": row.errors,
        "cacheHits": sum(each.cached_from is not None for each in rows) + of_items("hits"),
        "cacheMisses": sum(map(bool, misses)) + of_items("misses"),
    }
