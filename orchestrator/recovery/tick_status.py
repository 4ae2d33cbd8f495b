"""When the tick last went through: who watches a deployment sees here that nobody drives it any more.

Judged by the database's clock alone, as workers are (worker_processes.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.settings import Settings

# The tick is missed when it is this late, or this many intervals.
LATE_AFTER = timedelta(seconds=10)
LATE_INTERVALS = 5


@dataclass(frozen=True, slots=True)
class LastTick:
    """When it was (None: never), and how long ago."""

    at: datetime | None
    age: timedelta | None


def note(tx: Transaction) -> str:
    """A tick that held the lock went through. Returns the mode (maintenance_mode.py)."""
    return str(tx.execute("UPDATE orchestrator_state SET last_tick_at = now() RETURNING mode").scalar_one())


_FIND = "SELECT last_tick_at, now() - last_tick_at AS age FROM orchestrator_state"


def find(tx: Transaction) -> LastTick:
    """The last tick of any process."""
    row = tx.execute(_FIND).one()
    return LastTick(row.last_tick_at, row.age)


def complaint(last: LastTick, settings: Settings, watched_for: timedelta) -> str | None:
    """What is wrong with the tick; None while it goes on, and in serverless mode, where no beat drives it.

    Args:
        last: the last tick.
        settings: the mode, and how often the tick should be.
        watched_for: before the first tick ever, how long the asking process has been there.
    """
    if settings.mode == "serverless":
        return None
    late_after = max(LATE_AFTER, LATE_INTERVALS * timedelta(milliseconds=settings.poll_interval_ms))
    if (last.age or watched_for) <= late_after:
        return None
    since = "there was no tick yet" if last.age is None else f"the last tick was {_spoken(last.age)} ago"
    return f"{since}: is `pipeweave beat` running? Runs go on, but nothing that gets lost is healed."


def _spoken(age: timedelta) -> str:
    seconds = int(age.total_seconds())
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60:,} min"


def at(database_url: str) -> datetime | None:
    """When the last tick of this database was, over a connection of its own."""
    with Database(database_url, pool_size=0).transaction() as tx:
        return find(tx).at
