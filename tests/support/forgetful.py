"""Trees of runs of which the processes die after every second commit or so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.facts import Fact
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Verb
from pipeweave.orchestrator.waits import left_children
from pipeweave.orchestrator.waits.loading import look
from support.run_driver import PERMANENT, RunDriver, settle
from support.stored_values import VALUES


@dataclass(slots=True)
class Forgetful:
    """Reactions of processes that die after every second commit or so."""

    chance: random.Random

    def __call__(self, fact: Fact) -> Iterator[Verb]:
        return iter(()) if self.chance.random() < 0.5 else reactions_to(fact)


def tree(driver: RunDriver, root: UUID) -> list[UUID]:
    """The runs of a tree, oldest first."""
    rows = driver.rows("SELECT id FROM runs WHERE id = :id OR root_run_id = :id ORDER BY id", id=root)
    return [row.id for row in rows]


def work_on(driver: RunDriver, chance: random.Random, root: UUID, *, fails: float = 0) -> bool:
    """Do one of the queued steps of a tree; False if there is none.

    Args:
        fails: how probable it is that it fails.
    """
    queued = """SELECT t.run_id, t.id, t.attempt FROM task_runs AS t WHERE t.run_id = ANY(:runs)
        AND t.status = 'queued' ORDER BY t.id"""
    rows = driver.rows(queued, runs=tree(driver, root))
    if not rows:
        return False
    row = chance.choice(rows)
    failure = PERMANENT if chance.random() < fails else None
    with driver.database.transaction() as tx:
        started = claiming.start(tx, row.run_id, [ids.ordinal_of(row.id)], row.attempt, worker="w1")
        for each in started:
            settle(tx, each, output={"n": chance.randrange(4)}, failure=failure)
    return True


def look_at_all(driver: RunDriver, root: UUID) -> None:
    """Look at all waits of a tree, as if all were due."""
    keys = driver.rows("SELECT run_id, task_run_id FROM waits WHERE root_run_id = :id", id=root)
    look(driver.database, VALUES, [tuple(each) for each in keys])


def heal(driver: RunDriver, root: UUID) -> None:
    """Do what the chores do, until nothing of the tree is open; then nothing may be left of it."""
    while any(driver.run(each).finished_at is None for each in tree(driver, root)):
        left_children.check(driver.database)
        look_at_all(driver, root)
        work_on(driver, random.Random(0), root)
    assert driver.rows("SELECT 1 FROM waits WHERE root_run_id = :id", id=root) == []
    with verify.snapshot(driver.database) as tx:
        assert [verify.run(tx, each) for each in tree(driver, root)] == [[] for _ in tree(driver, root)]
