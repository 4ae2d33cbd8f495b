"""A chore that is through rests for as long as it says; another one goes on with the next tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from pipeweave.errors import Busy
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.recovery import tick
from pipeweave.orchestrator.recovery.chores import Chore
from pipeweave.orchestrator.recovery.tick import Rests
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Unfinished

MINUTE = timedelta(minutes=1)


def rare(work: Callable[[], int]) -> Chore:
    """A chore that rests for a minute."""
    return Chore("rare", lambda _: work(), "purged", every=MINUTE)


def pass_by(deployment: Deployment, seconds: float) -> None:
    """Let so much (s) of its rest pass."""
    deployment.database.caches.own(Rests)["rare"] -= seconds


def turns(*results: int | Exception) -> tuple[Callable[[], int], list[int | Exception]]:
    """Work that has these results, one after the other, and those that are left."""
    left = list(results)

    def work() -> int:
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return work, left


def test_a_chore_runs_as_often_as_it_says(deployment: Deployment) -> None:
    work, left = turns(1, 2)
    chore = rare(work)
    done = []
    for seconds in (30, 31, 0):
        done.append(tick.run_once(deployment, [chore]).purged)
        pass_by(deployment, seconds)
    done.append(tick.run_once(deployment, [chore]).purged)
    assert (done, left) == ([1, 0, 2, 0], [])


def test_a_chore_that_somebody_waits_for_does_not_rest(deployment: Deployment) -> None:
    work, left = turns(1, 2)
    chore = rare(work)
    assert [tick.run_once(deployment, [chore], is_urgent=True).purged for _ in range(2)] == [1, 2]
    assert left == []


def test_each_database_of_a_process_has_its_own_rests(
    deployment: Deployment, fresh_database: Database
) -> None:
    work, left = turns(1, 2)
    chore = rare(work)
    another = replace(deployment, database=fresh_database)
    done = [tick.run_once(each, [chore]).purged for each in (deployment, another, deployment, another)]
    assert (done, left) == ([1, 2, 0, 0], [])


@pytest.mark.parametrize("result", [Unfinished(3), RuntimeError("a bug"), Busy("a row is locked")])
def test_a_chore_that_is_not_through_goes_on_with_the_next_tick(
    deployment: Deployment, result: int | Exception
) -> None:
    work, left = turns(result, 1, 1)
    chore = rare(work)
    for _ in range(3):
        tick.run_once(deployment, [chore])
    assert left == [1], "it goes on at once, and rests when it is through"


def test_a_chore_that_another_process_or_maintenance_kept_from_its_work_does_not_rest(
    deployment: Deployment,
) -> None:
    work, left = turns(1)
    chore = rare(work)
    lease = leases.take(deployment.database, leases.TICK, tick.LEASE)
    assert lease is not None
    assert tick.run_once(deployment, [chore]).is_elsewhere
    leases.end(deployment.database, lease)
    deployment.database.run(maintenance_mode.request)
    deployment.database.run(maintenance_mode.enter)
    assert tick.run_once(deployment, [chore]).purged == 0
    deployment.database.run(maintenance_mode.leave)
    assert tick.run_once(deployment, [chore]).purged == 1
    assert left == []
