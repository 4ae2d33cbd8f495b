"""Heals child runs that were not told what became of their parent, because the process that did it died."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.runs import child_runs, pausing
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Isolation

# Open children that one turn looks at.
BATCH = 1_000
# So many of them are changed: a tick has other chores.
MOST = 100


class _ChildrenPass:
    """The pass of this process over a database: the last child that it looked at."""

    def __init__(self) -> None:
        self.after = UUID(int=0)


def check(database: Database) -> int:
    """Look at up to BATCH open children: cancel those that nothing waits for, and resume those that are
    paused though their parent is not, MOST of them. The next call goes on behind them. Returns how many these
    were.

    Raises:
        PartlyFailed: something could not be done about some.
        Unavailable: PostgreSQL cannot be reached.
    """
    under_way = database.caches.own(_ChildrenPass)
    with database.statements() as tx:
        left, last = child_runs.some_left(tx, under_way.after, BATCH)
    under_way.after = left[MOST - 1].id if len(left) > MOST else last or UUID(int=0)
    isolation = Isolation(database)
    return isolation.finish(
        sum(isolation.run(lambda row=row: _heal(database, row), run_id=row.id) for row in left[:MOST])  # type: ignore[misc]
    )


def _heal(database: Database, row: Any) -> int:
    if row.is_left:
        return int(database.run(lambda tx: child_runs.cancel(tx, row.tenant_id, row.id)))
    database.run(lambda tx: pausing.resume_child(tx, row.tenant_id, row.id))
    return 1
