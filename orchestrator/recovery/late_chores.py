"""Runs chores that may take long beside the tick.

A store or a service that hangs, or rows that take a while to delete, must not keep the tick from its next
chores, nor let its lease end: runs that need neither would wait, too. So such a chore has a thread of its
own. The tick waits for it briefly, and goes on without it; what it did is counted by the tick that finds it
ended. Until then it is not begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipeweave.beside import Beside, TooLate
from pipeweave.orchestrator.recovery.tick_status import ChoreResult
from pipeweave.orchestrator.store.database import Database

# The chores of one tick are waited for as long (s) as this together.
WAIT_S = 0.5


class _UnderWay(dict[str, Beside[ChoreResult]]):
    """The calls that are under way, by the name of their chore."""


def run(database: Database, name: str, work: Callable[[], ChoreResult], seconds: float) -> ChoreResult | None:
    """Begin a chore in a thread and wait for it; one that was under way is only looked at.

    Args:
        database: of the tick.
        work: runs the chore.
        seconds: how long to wait (s).

    Returns:
        What the chore did; None while it goes on.

    Raises:
        Exception: what `work` raised.
    """
    chores = database.caches.own(_UnderWay)
    if name in chores:
        seconds = 0.0
    else:
        chores[name] = Beside(work, f"chore {name}")
    try:
        result = chores[name].result(seconds)
    except TooLate:
        return None
    except BaseException:
        del chores[name]
        raise
    del chores[name]
    return result


def is_under_way(database: Database, name: str) -> bool:
    """Whether a chore was begun that has not been found ended."""
    return name in database.caches.own(_UnderWay)


def are_under_way(database: Database, names: Iterable[str]) -> bool:
    """Whether one of these chores is under way: an idle tick asks it of all."""
    return not database.caches.own(_UnderWay).keys().isdisjoint(names)
