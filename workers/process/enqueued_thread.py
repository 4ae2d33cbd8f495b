"""Starts enqueued runs in a thread: soon after their caller's commit, where a tick may be a second away.

It looks at an index that is nearly always empty. A notification by PostgreSQL would save the looks, and make
every caller's commit wait for all others (docs/decisions/0035-enqueue.md).
"""

from __future__ import annotations

import logging
import threading
import time

from pipeweave.orchestrator import enqueued
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.store import Database
from pipeweave.workers.process.failure_log import FailureLog

log = logging.getLogger(__name__)

# Between two looks (s).
EVERY_S = 0.03
# A look that takes long, because the server is slow or many old rows are in its way, makes the next one wait
# so many times as long: looking takes a fiftieth of one session at most.
PAUSE_PER_LOOK = 50
LONGEST_PAUSE_S = 1.0
# After a failure (s).
AGAIN_AFTER_S = 1.0


class EnqueuedThread:
    """Looks for enqueued runs until it is stopped. A look that fails is logged and tried again.

    Args:
        deployment: starts the runs, over one connection more.
    """

    def __init__(self, deployment: Deployment) -> None:
        main = deployment.database
        self._database = Database(main.url, pool_size=1, sender=main.sender, react=main.react)
        self._values = deployment.values
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeweave-enqueued", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; wait for a start that is under way."""
        self._end.set()
        self._thread.join(AGAIN_AFTER_S)
        self._database.dispose()

    def _run(self) -> None:
        failures = FailureLog(log, "enqueued.failed")
        pause = EVERY_S
        while not self._end.wait(pause):
            try:
                pause = self._look()
            except Exception as error:
                failures.failed(error)
                pause = AGAIN_AFTER_S
            else:
                failures.worked()

    def _look(self) -> float:
        began = time.monotonic()
        with self._database.statements() as tx:
            is_due = enqueued.has_due(tx)
        took = time.monotonic() - began
        if is_due:
            enqueued.run_once(self._database, self._values)
        return min(max(EVERY_S, PAUSE_PER_LOOK * took), LONGEST_PAUSE_S)
