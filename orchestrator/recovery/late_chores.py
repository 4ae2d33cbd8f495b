"""Runs chores that may wait for somebody else's server beside the tick.

A store or a service that hangs must not keep the tick from its next chores, nor let its lease end: runs
that need neither would wait, too. So such a chore has a thread of its own. The tick waits for it briefly, and
goes on without it; what it did is counted by the tick that finds it ended. Until then it is not begun again.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from pipeweave.beside import Beside, TooLate
from pipeweave.orchestrator.recovery.tick_status import ChoreResult
from pipeweave.orchestrator.store.database import Database

# The chores of one tick are waited for as long (s) as this together.
WAIT_S = 0.5

# What is under way, by the database of its tick and the name of the chore.
_under_way: WeakKeyDictionary[Database, dict[str, Beside[ChoreResult]]] = WeakKeyDictionary()


def run(database: Database, name: str, work: Callable[[], ChoreResult], seconds: float) -> ChoreResult:
    """Begin a chore in a thread, unless it is under way, and wait for it.

    Args:
        database: of the tick.
        work: runs the chore.
        seconds: how long to wait (s).

    Returns:
        What the chore did; nothing while it goes on.

    Raises:
        Exception: what `work` raised.
    """
    chores = _under_way.setdefault(database, {})
    if name not in chores:
        chores[name] = Beside(work, f"chore {name}")
    try:
        result = chores[name].result(seconds)
    except TooLate:
        return ChoreResult.of_nothing(name)
    except BaseException:
        del chores[name]
        raise
    del chores[name]
    return result


def is_under_way(database: Database, name: str) -> bool:
    """Whether a chore was begun that has not been found ended."""
    return name in _under_way.get(database, {})
