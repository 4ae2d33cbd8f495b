"""Does the same work for many items, so that a failure for one of them does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from pipeweave.errors import Busy, Deadlocked, PartlyFailed, ReadOnly, Unavailable
from pipeweave.orchestrator.store.database import Database

log = logging.getLogger(__name__)

T = TypeVar("T")


class Unfinished(int):
    """How much a pass did that left something undone: it does not rest before it goes on."""


class Isolation:
    """One pass over many items.

    Each failure is logged with the item's ids and kept; `finish` raises it once every item had its turn. An
    item whose rows another transaction holds is skipped: that is a failure, too, but no error.

    Args:
        database: where the work is done. Without it no item can succeed, so the pass ends when it is away.
    """

    def __init__(self, database: Database) -> None:
        self.failures: list[Exception] = []
        self._database = database

    def run(self, work: Callable[[], int], **ids: object) -> int:
        """Do the work for one item.

        Args:
            work: returns how much it did.
            ids: name the item in the log, such as `run_id`.

        Returns:
            What `work` returned, 0 when it failed.

        Raises:
            Unavailable: PostgreSQL cannot be reached.
        """
        try:
            return work()
        except Exception as error:
            self.record(error, **ids)
            return 0

    def run_together(self, items: Sequence[T], work: Callable[[Sequence[T]], int], name: str) -> int:
        """Do the work for all items at once and, when that fails, for one after the other.

        Args:
            items: the items of the work.
            work: returns how much it did. It must have done nothing when it raises.
            name: of an item's id in the log.
        """
        try:
            return work(items)
        except Exception as error:
            check_database(self._database, error)
        return sum(self.run(lambda item=item: work([item]), **{name: item}) for item in items)  # type: ignore[misc]

    def record(self, error: Exception, **ids: object) -> None:
        """Keep and log a failure.

        Raises:
            Unavailable: PostgreSQL cannot be reached.
        """
        check_database(self._database, error)
        self.failures.append(error)
        extra = {name: str(each) for name, each in ids.items()}
        if isinstance(error, Busy):
            log.info("chore.item_skipped", extra=extra)
        else:
            log.warning("chore.item_failed", exc_info=error, extra=extra)

    def finish(self, done: int) -> int:
        """End the pass and return how much was done.

        Raises:
            PartlyFailed: the work for some items failed.
        """
        if self.failures:
            raise PartlyFailed(done, self.failures)
        return done


def check_database(database: Database, error: Exception) -> None:
    """After an error that may mean so, find out whether PostgreSQL is away.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
        ReadOnly: it takes no writes.
    """
    if isinstance(error, ReadOnly):
        raise error
    if isinstance(error, Unavailable) and not isinstance(error, Deadlocked | Busy):
        with database.reserved() as tx:
            tx.execute("SELECT 1")
