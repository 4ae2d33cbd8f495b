"""The spans of runs, attempts and waits (pure): names, ids and attributes.

Ids follow from what a span stands for, so that a span which is sent twice is the same span.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain import tracing

RUN, STEP, WAIT = "orchestrator.run", "orchestrator.step", "orchestrator.wait"
# Characters of an error's sentence.
MOST_TEXT = 500
# The end of a run, or the outcome of an attempt, that is no error.
_FINE = frozenset({"completed", "cached", "cancelled", "partial"})


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A span that has ended.

    Args:
        trace_id: 32 hexadecimal digits; span_id and parent_id: 16 each; no parent: None.
        error: why it is an error; None: it is none.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    started_at: datetime
    ended_at: datetime
    attributes: Mapping[str, str | int | float]
    error: str | None = None


def is_recorded(traceparent: str | None) -> bool:
    """Whether the caller that began the run wants its trace recorded."""
    return traceparent is None or bool(int(traceparent[-2:], 16) & 1)


def of_run(row: Any) -> TraceSpan:
    """The span of a run that ended. A run that is continued after its end gets one more, below the first."""
    first = tracing.run_span_id(row.run_id)
    status = row.type.partition(".")[2]
    attributes = {
        "tenant": row.tenant_id,
        "dagId": row.pipeline_id,
        "dagVersion": row.pipeline_version,
        "runId": ids.show(ids.RUN, row.run_id),
        "status": status,
        "steps": row.task_run_count,
        "errorCode": row.error_code if status not in _FINE else None,
    }
    is_again = row.reopened_at is not None and row.reopened_at <= row.at
    return TraceSpan(
        RUN,
        tracing.trace_id(row.run_id, row.traceparent),
        tracing.run_span_id(row.run_id, row.seq) if is_again else first,
        first if is_again else _callers_span(row.traceparent),
        row.reopened_at if is_again else row.started_at or row.created_at,
        row.at,
        _known(attributes),
        None if status in _FINE else _text(row.error, row.error_code, status),
    )


def of_attempt(row: Any) -> TraceSpan:
    """The span of an attempt that ended."""
    attributes = {
        "tenant": row.tenant_id,
        "dagId": row.pipeline_id,
        "runId": ids.show(ids.RUN, row.run_id) if row.pipeline_id is not None else None,
        "stepId": row.step_id if row.pipeline_id is not None else None,
        "taskRunId": ids.show(ids.TASK_RUN, row.task_run_id),
        "taskId": row.task_id,
        "attempt": row.attempt,
        "mapIndex": row.map_index,
        "status": row.outcome,
        "worker": row.worker,
        "errorCode": row.error_code,
        "queuedMs": row.queued_ms,
    }
    return TraceSpan(
        STEP,
        tracing.trace_id(row.run_id, row.traceparent),
        tracing.span_id(row.task_run_id, row.attempt),
        tracing.run_span_id(row.run_id) if row.pipeline_id is not None else _callers_span(row.traceparent),
        row.started_at,
        max(row.started_at, row.ended_at),
        _known(attributes),
        None if row.outcome in _FINE else _text(row.error, row.error_code, row.outcome),
    )


def of_wait(row: Any) -> TraceSpan:
    """The span of a wait that ended: of a step that only waits, the span of the step; of a call that has
    suspended itself, one below that of the attempt.
    """
    attributes = {
        "tenant": row.tenant_id,
        "dagId": row.pipeline_id,
        "runId": ids.show(ids.RUN, row.run_id),
        "stepId": row.step_id,
        "taskRunId": ids.show(ids.TASK_RUN, row.task_run_id),
        "attempt": row.attempt,
        "mapIndex": row.map_index,
        "waitKind": row.wait_kind,
        "status": row.outcome,
        "errorCode": row.error_code,
    }
    of_step = tracing.span_id(row.task_run_id, row.attempt)
    return TraceSpan(
        WAIT,
        tracing.trace_id(row.run_id, row.traceparent),
        tracing.wait_span_id(row.task_run_id, row.attempt) if row.is_called else of_step,
        of_step if row.is_called else tracing.run_span_id(row.run_id),
        row.started_at,
        max(row.started_at, row.ended_at),
        _known(attributes),
        None if row.outcome in _FINE else _text(row.error, row.error_code, row.outcome),
    )


def _callers_span(traceparent: str | None) -> str | None:
    return None if traceparent is None else traceparent[36:52]


def _known(attributes: Mapping[str, str | int | float | None]) -> dict[str, str | int | float]:
    return {name: value for name, value in attributes.items() if value is not None}


def _text(error: Any, code: str | None, status: str) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return f"{code or status}: {message}"[:MOST_TEXT] if message else code or status
