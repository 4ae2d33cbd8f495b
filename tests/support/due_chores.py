"""Which chores of the tick have anything to do, as the tick asks."""

from __future__ import annotations

from datetime import timedelta

from pipeweave.orchestrator.recovery import look
from pipeweave.orchestrator.recovery.chores import CHORES
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database


def due_chores(database: Database, *names: str) -> set[str]:
    """The names of those of these chores that have something to do."""
    chores = tuple(each for each in CHORES if each.name in names)
    assert {each.name for each in chores} == set(names)
    seen = look.begin(database, look.Question(chores, None, timedelta(seconds=30), may_be_over=False))
    assert seen.lease is not None
    leases.end(database, seen.lease)
    return set(names) - seen.idle
