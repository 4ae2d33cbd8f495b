"""Loads what sends spans, and what makes an attempt's span the current one: packages of the extra `otel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeweave.errors import MissingExtra
from pipeweave.orchestrator.deployment import log_context
from pipeweave.orchestrator.telemetry.traces import TraceSpan
from pipeweave.settings import Settings

Send = Callable[[Sequence[TraceSpan]], bool]


def follow(settings: Settings) -> None:
    """In a process that calls functions: make each attempt's span the current one, where spans are sent.

    Raises:
        MissingExtra: the packages of the extra `otel` are not installed.
    """
    if settings.otlp_endpoint is None:
        return
    try:
        from pipeweave.workers.consumer import call_traces
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    log_context.also_enter(call_traces.enter)


def sender(endpoint: str) -> Send:
    """What sends spans to a collector.

    Raises:
        MissingExtra: the packages of the extra `otel` are not installed.
    """
    try:
        from pipeweave.workers.process import otlp
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return otlp.sender(endpoint)


def _missing(error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(
        f"OTEL_EXPORTER_OTLP_ENDPOINT is set, and a package that sends spans is not installed ({error.name})",
        hint="pip install 'pipeweave[otel]', or unset the variable",
    )
