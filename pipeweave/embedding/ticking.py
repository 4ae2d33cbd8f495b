"""Run the tick in a thread, again and again, as beat does in a process."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeweave.orchestrator.deployment import Deployment

log = logging.getLogger(__name__)

# A tick that waits for services may take so long; stopping does not wait longer for it (s).
STOP_WITHIN_S = 10.0


class TickThread:
    """Ticks every POLL_INTERVAL_MS until it is stopped. A tick that fails is logged and tried again."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._interval = deployment.settings.poll_interval_ms / 1000
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeweave-tick", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def stop(self) -> None:
        """Tick no more; wait for a tick that is under way."""
        self._end.set()
        self._thread.join(STOP_WITHIN_S)

    def _run(self) -> None:
        from pipeweave.failure_log import FailureLog
        from pipeweave.orchestrator.recovery import tick

        failures = FailureLog(log, "tick.failed")
        while not self._end.is_set():
            began = time.monotonic()
            try:
                tick.run_once(self._deployment)
            except Exception as error:
                failures.failed(error)
            else:
                failures.worked()
            self._end.wait(max(0.0, began + self._interval - time.monotonic()))
