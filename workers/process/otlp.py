"""Sends spans to an OpenTelemetry collector, over HTTP. Needs the extra `otel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pipeweave.orchestrator.telemetry.traces import TraceSpan
from pipeweave.settings import environment

# Seconds that one request to the collector may take, with its repetitions.
TIMEOUT_S = 10.0
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def sender(endpoint: str) -> Callable[[Sequence[TraceSpan]], bool]:
    """What sends spans to a collector, as the variables OTEL_EXPORTER_OTLP_* say; it says whether they have
    arrived.
    """
    # A program that embeds an orchestrator may name another collector than its environment.
    is_of_environment = environment().get("OTEL_EXPORTER_OTLP_ENDPOINT") == endpoint
    url = None if is_of_environment else f"{endpoint.rstrip('/')}/v1/traces"
    return sending_with(OTLPSpanExporter(url, timeout=TIMEOUT_S))


def sending_with(exporter: SpanExporter) -> Callable[[Sequence[TraceSpan]], bool]:
    """What sends spans with an exporter."""
    own = {SERVICE_NAME: "pipeweave", SERVICE_VERSION: version("pipeweave")}
    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes before.
    resource = Resource(own).merge(Resource.create())
    if str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service"):
        resource = resource.merge(Resource(own))
    scope = InstrumentationScope("pipeweave", version("pipeweave"))

    def send(spans: Sequence[TraceSpan]) -> bool:
        readable_spans = [_readable(each, resource, scope) for each in spans]
        return exporter.export(readable_spans) is SpanExportResult.SUCCESS

    return send


def _readable(span: TraceSpan, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    trace = int(span.trace_id, 16)
    parent = None
    if span.parent_id is not None:
        parent = SpanContext(trace, int(span.parent_id, 16), is_remote=True, trace_flags=_SAMPLED)
    is_error = span.error is not None
    return ReadableSpan(
        span.name,
        SpanContext(trace, int(span.span_id, 16), is_remote=False, trace_flags=_SAMPLED),
        parent,
        resource=resource,
        attributes=dict(span.attributes),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR if is_error else StatusCode.OK, span.error),
        start_time=_nanoseconds(span.started_at),
        end_time=_nanoseconds(span.ended_at),
        instrumentation_scope=scope,
    )


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
