"""Sends spans in a thread of beat, while OTEL_EXPORTER_OTLP_ENDPOINT is set.

The tick has milliseconds, and a collector may take seconds. While the collector is away, nothing is lost:
what ended is in the event log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from pipeweave.errors import MissingExtra
from pipeweave.failure_log import FailureLog
from pipeweave.orchestrator.deployment import log_context
from pipeweave.orchestrator.store import Database
from pipeweave.orchestrator.telemetry import traces
from pipeweave.orchestrator.telemetry.traces import Span
from pipeweave.settings import Settings

log = logging.getLogger(__name__)

# Between two looks (s), and after a failure.
EVERY_S = 1.0
AGAIN_AFTER_S = 5.0

Send = Callable[[Sequence[Span]], bool]


def start(settings: Settings) -> TracesThread | None:
    """Send spans from now on; None where the settings name no collector.

    Raises:
        MissingExtra: the packages of the extra `otel` are not installed.
    """
    if settings.otlp_endpoint is None or settings.database_url is None:
        return None
    thread = TracesThread(Database(settings.database_url, pool_size=1), sender())
    thread.start()
    return thread


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


def sender() -> Send:
    """What sends spans.

    Raises:
        MissingExtra: the packages of the extra `otel` are not installed.
    """
    try:
        from pipeweave.workers.process import otlp
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return otlp.sender()


def _missing(error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(
        f"OTEL_EXPORTER_OTLP_ENDPOINT is set, and a package that sends spans is not installed ({error.name})",
        hint="pip install 'pipeweave[otel]', or unset the variable",
    )


class TracesThread:
    """Sends spans until it is stopped.

    Args:
        database: its own; `stop` closes it.
    """

    def __init__(self, database: Database, send: Send) -> None:
        self._database = database
        self._send = send
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeweave-traces", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more."""
        self._end.set()
        self._thread.join(AGAIN_AFTER_S)
        self._database.dispose()

    def _run(self) -> None:
        failures, has_begun, pause = FailureLog(log, "traces.failed"), False, 0.0
        while not self._end.wait(pause):
            try:
                if not has_begun:
                    traces.begin(self._database)
                    has_begun = True
                pause = 0.0 if traces.run_once(self._database, self._send) else EVERY_S
            except Exception as error:
                failures.failed(error)
                pause = AGAIN_AFTER_S
            else:
                failures.worked()
