"""Makes an attempt's span the current one while its function runs, so that spans which the function begins,
and calls that instrumented libraries make, belong to its trace. Needs the extra `otel`; the span itself is
sent by beat (orchestrator/telemetry/traces).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token

from opentelemetry import context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from pipeweave.orchestrator.domain import RunHeader, TaskRun, tracing


def enter(run: RunHeader, task_run: TaskRun) -> Callable[[], None]:
    """Make the span the current one; returns what ends that."""
    flags = TraceFlags.SAMPLED if run.traceparent is None else int(run.traceparent[-2:], 16)
    span = SpanContext(
        int(run.trace_id, 16),
        int(tracing.span_id(task_run.id, task_run.attempt), 16),
        is_remote=True,
        trace_flags=TraceFlags(flags),
    )
    token: Token[context.Context] = context.attach(set_span_in_context(NonRecordingSpan(span)))
    return lambda: context.detach(token)
