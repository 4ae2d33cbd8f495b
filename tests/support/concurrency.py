"""Calls in threads beside the test, for races between two connections."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from pipeweave.orchestrator.store.database import Database
from support.servers import wait_until

R = TypeVar("R")

# How long a call may take that nothing holds up, on a machine busy with other things.
CALL_DEADLINE_S = 60.0


class BackgroundCall(Generic[R]):
    """A function called in a thread beside the test; leaving the block waits for its end.

    Args:
        work: the function; what it returns is `result`.
    """

    def __init__(self, work: Callable[[], R]) -> None:
        self._work = work
        self._result: list[R] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._call, daemon=True)

    def _call(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:
            self.error = error

    def __enter__(self) -> BackgroundCall[R]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def wait(self) -> None:
        """Wait for the end of the call."""
        self._thread.join(CALL_DEADLINE_S)
        assert not self._thread.is_alive(), "the call did not end"

    @property
    def is_done(self) -> bool:
        """Whether the call ended."""
        return not self._thread.is_alive()

    @property
    def result(self) -> R:
        """What the function returned.

        Raises:
            BaseException: what the function raised.
        """
        self.wait()
        if self.error is not None:
            raise self.error
        return self._result[0]


_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def wait_for_lock(database: Database, waiting: int = 1) -> None:
    """Wait until transactions of this database wait for a lock.

    Args:
        waiting: how many of them at least.
    """

    def is_waiting() -> bool:
        with database.transaction() as tx:
            return int(tx.execute(_WAITING).scalar_one()) >= waiting

    wait_until(is_waiting, what="no transaction waits for a lock")


def call_concurrently(*works: Callable[[], R]) -> list[BackgroundCall[R]]:
    """Call functions in threads that start together; returns when all ended.

    Returns:
        The calls in the order of the functions; `result` raises what a function raised.
    """
    start = threading.Barrier(len(works))

    def begin(work: Callable[[], R]) -> R:
        start.wait(CALL_DEADLINE_S)
        return work()

    threads = [BackgroundCall(lambda work=work: begin(work)) for work in works]  # type: ignore[misc]
    for thread in threads:
        thread.__enter__()
    for thread in threads:
        thread.wait()
    return threads
