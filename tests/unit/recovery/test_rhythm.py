"""How often a process that ticks on and on runs each chore."""

from __future__ import annotations

from datetime import timedelta

from pipeweave.orchestrator.recovery.tick import Chore, Rhythm
from pipeweave.orchestrator.store.database import Database

# Nothing is asked of it.
DATABASE = Database("postgresql://nobody@127.0.0.1:1/none", pool_size=0)
ALWAYS = Chore("always", lambda _: 0, None)


def rare(is_under_way: bool = False) -> Chore:
    every = timedelta(seconds=3.5)
    return Chore("rare", lambda _: 0, None, every=every, is_under_way=lambda _: is_under_way)


def ran(rhythm: Rhythm, *times: float) -> list[list[str]]:
    return [[each.name for each in rhythm.due(time)] for time in times]


def test_a_chore_runs_at_each_tick_or_as_often_as_it_says() -> None:
    found = ran(Rhythm(DATABASE, [rare(), ALWAYS]), 100.0, 101.1, 102.0, 103.0, 104.1, 105.0)
    assert [len(each) for each in found] == [2, 1, 1, 1, 2, 1]
    assert found[0] == ["rare", "always"]


def test_a_chore_that_is_not_through_goes_on_with_the_next_tick() -> None:
    assert ran(Rhythm(DATABASE, [rare(is_under_way=True)]), 100.0, 101.0) == [["rare"], ["rare"]]
