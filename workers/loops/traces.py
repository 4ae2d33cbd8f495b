"""Sends spans, while OTEL_EXPORTER_OTLP_ENDPOINT is set.

The tick has milliseconds, and a collector may take seconds. While the collector is away, nothing is lost:
what ended is in the event log.
"""

from __future__ import annotations

import threading

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.telemetry import traces
from pipeweave.workers.loops.loop import Turn
from pipeweave.workers.process import tracing

# Between two looks (s).
EVERY_S = 1.0


def turns(deployment: Deployment) -> Turn | None:
    """Each sends a batch of what ended; None where the settings name no collector.

    Raises:
        MissingExtra: the packages of the extra `otel` are not installed.
    """
    endpoint, has_begun = deployment.settings.otlp_endpoint, False
    if endpoint is None:
        return None
    send = tracing.sender(endpoint)

    def turn(_: threading.Event) -> float:
        nonlocal has_begun
        if not has_begun:
            traces.begin(deployment.database)
            has_begun = True
        return 0.0 if traces.run_once(deployment.database, send) else EVERY_S

    return turn
