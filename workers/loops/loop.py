"""The loop of a thread: a turn, a pause, the next turn, until it is stopped. A turn that fails is logged and
tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeweave.failure_log import FailureLog
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.store import Database

log = logging.getLogger(__name__)

# Does what is due, and returns how long to pause (s). The event is set when the loop is stopped: who waits in
# between waits for it.
Turn = Callable[[threading.Event], float]


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """A row of the table of loops.

    Args:
        name: of its thread, and in the log: `traces.failed`.
        open: makes its turns; None where the settings ask for none.
        again_after_s: the pause after a turn that failed (s).
        first_after_s: the pause before the first turn (s).
        connections: how many of its own it has to the database; 0 for those of the deployment.
    """

    name: str
    open: Callable[[Deployment], Turn | None]
    again_after_s: float
    first_after_s: float = 0.0
    connections: int = 0


class Loop:
    """A row in a daemon thread, if the settings ask for it.

    Args:
        worked: called after each turn that did not fail.
    """

    def __init__(self, spec: LoopSpec, deployment: Deployment, worked: Callable[[], None]) -> None:
        main = deployment.database
        self._database: Database | None = None
        if spec.connections:
            self._database = Database(
                main.url, pool_size=spec.connections, sender=main.sender, react=main.react
            )
        self._spec = spec
        self._turn = spec.open(replace(deployment, database=self._database or main))
        self._worked = worked
        self._failures = FailureLog(log, f"{spec.name}.failed")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pipeweave-{spec.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        if self._turn is not None:
            self._thread.start()

    def end(self) -> None:
        """Begin no further turn."""
        self._end.set()

    def wait(self, seconds: float) -> None:
        """Wait for the turn that is under way, after `end`; at most so long (s)."""
        if self._turn is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        pause = self._spec.first_after_s
        while self._turn is not None and not self._end.wait(pause):
            try:
                pause = self._turn(self._end)
            except Exception as error:
                self._failures.failed(error)
                pause = self._spec.again_after_s
            else:
                self._failures.worked()
                self._worked()
        if self._database is not None:
            self._database.dispose()
