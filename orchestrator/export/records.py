"""The lines of an export: runs, task runs, attempts and events as records of their own.

They have the shapes of the API. What belongs to a run is said on each line, so that each is understood alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.domain.json_shapes import iso, reference, run_id, task_run_id
from pipeweave.orchestrator.reading.run_events import event_row
from pipeweave.orchestrator.reading.runs import edits_row, run_row
from pipeweave.orchestrator.reading.state_document import logs_ref, metrics_ref
from pipeweave.orchestrator.reading.task_runs import attempt_row, task_run_row
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import CALLED
from pipeweave.storage import plain_path

Outputs = Mapping[str, str | None]


def of_run(row: Any) -> Document:
    """A run."""
    return {
        **run_row(row),
        "input": row.input,
        "inputRef": reference(row.input_path, row.input_size, row.inputs_hash),
        "inputsHash": row.inputs_hash,
        "edits": edits_row(row),
        "logsRef": f"/api/export/logs?run={run_id(row.id)}",
        "metricsRef": f"/api/runs/{run_id(row.id)}/state#/metrics",
    }


def _belongs_to(run: Any) -> Document:
    return {
        "tenant": run.tenant_id,
        "pipelineId": run.pipeline_id,
        "pipelineVersion": run.pipeline_version,
        "traceId": tracing.trace_id(run.id, run.traceparent),
    }


def of_task_run(run: Any, row: Any, inputs_hash: str | None, outputs_hash: str | None) -> Document:
    """A task run: a step, or an item of a map.

    Args:
        outputs_hash: of a map, whose row has none.
    """
    return {
        **task_run_row(row),
        **_belongs_to(run),
        "startedUtc": iso(row.started_at),
        "endedUtc": iso(row.finished_at),
        "item": row.item,
        "output": row.output,
        "outputRef": reference(row.output_path, row.output_size, row.output_hash),
        "inputsHash": inputs_hash,
        "outputsHash": row.output_hash or outputs_hash,
        "selectedNext": row.selected_next,
        "codeHash": row.code_hash,
        "idempotencyKey": row.idempotency_key,
        "cachedFrom": row.cached_from and task_run_id(row.cached_from),
        "logsRef": logs_ref(row.id),
        "metricsRef": metrics_ref(row.id, row.step_id),
    }


def attempts_of(row: Any, ended: list[Any]) -> Iterator[tuple[Any, int, str]]:
    """The attempts of a task run that began, oldest first: {row, number, status} each. A map calls nothing.

    Args:
        ended: the rows of `attempts` of this task run, oldest first.
    """
    for each in ended:
        yield each, each.number, each.status
    if row.kind in CALLED and row.started_at is not None and not (ended and ended[-1].number == row.attempt):
        yield row, row.attempt, row.status


def of_attempt(run: Any, task_run: Any, row: Any, number: int, status: str) -> Document:
    """An attempt of a task run."""
    return {
        "taskRunId": task_run_id(task_run.id),
        "runId": run_id(run.id),
        "stepId": task_run.step_id,
        "taskId": task_run.task_id,
        **_belongs_to(run),
        **attempt_row(row, number, status),
        "dispatchedAt": iso(row.dispatched_at),
        "logsPath": row.logs_path and plain_path(row.logs_path),
        "logsRef": f"{logs_ref(task_run.id)}?attempt={number}",
    }


def of_event(run: Any, row: Any) -> Document:
    """An event."""
    return {**event_row(row), "runId": run_id(run.id), **_belongs_to(run)}


def of_log_line(run: Any, task_run: Any, number: int, line: Document) -> Document:
    """A line that an attempt logged or printed."""
    item = {} if task_run.map_index is None else {"mapIndex": task_run.map_index}
    return {
        "taskRunId": task_run_id(task_run.id),
        "stepId": task_run.step_id,
        **item,
        "attempt": number,
        **_belongs_to(run),
        **line,
        "runId": run_id(run.id),
    }


def by_id(rows: list[Any]) -> Mapping[UUID, Any]:
    """Rows of runs by their ids."""
    return {each.id: each for each in rows}
