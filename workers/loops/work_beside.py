"""Does work of a loop in a thread beside it, a piece at a time, over connections of its own: who waits for
storage, or has much to do, keeps the loop from nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pipeweave.beside import Beside
from pipeweave.failure_log import FailureLog
from pipeweave.orchestrator.store import Database

log = logging.getLogger(__name__)


class WorkBeside:
    """One kind of work of a loop.

    Args:
        main: the database of the loop.
        name: of its thread, `enqueued-large`.
        event: of its failures in the log.
        pool_size: connections that are kept for it; 0 for work that is rare.
        work: what it does each time.
    """

    def __init__(
        self, main: Database, name: str, event: str, work: Callable[[Database], object], *, pool_size: int
    ) -> None:
        self._database = Database(main.url, pool_size=pool_size, sender=main.sender, react=main.react)
        self._name = name
        self._work = work
        self._failures = FailureLog(log, event)
        self._begun: Beside[None] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it goes on."""
        return self._begun is not None and self._begun.is_under_way

    def begin(self) -> None:
        """Begin, unless it is under way."""
        if not self.is_under_way:
            self._begun = Beside(self._run, f"pipeweave-{self._name}")

    def _run(self) -> None:
        try:
            self._work(self._database)
        except Exception as error:
            self._failures.failed(error)
        else:
            self._failures.worked()
