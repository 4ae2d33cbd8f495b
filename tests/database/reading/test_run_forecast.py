"""What is left of an open run, from how long its steps took before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from support.run_driver import Clock, RunDriver, settle

from pipeweave.errors import NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.keyset import Document

STEPS = {"a": [], "b": ["a"], "m": ["a"], "end": ["b", "m"]}
A, B, M, END, FIRST_ITEM = 1, 2, 3, 4, 5
ITEMS = 4


@pytest.fixture
def driver(database: Database, clock: Clock) -> Iterator[RunDriver]:
    moved = Database(database.url, react=reactions_to, now=clock)
    made = RunDriver(moved)
    made.store(STEPS, id="p", maps={"m": list(range(ITEMS))})
    yield made
    moved.dispose()


def work(driver: RunDriver, clock: Clock, run_id: UUID, ordinal: int, seconds: float) -> None:
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [ordinal], 1, worker="w1")
    clock.ahead += timedelta(seconds=seconds)
    with driver.database.transaction() as tx:
        settle(tx, started)


def forecast(driver: RunDriver, run_id: UUID) -> Document:
    with driver.database.reading() as tx:
        return reading.run_forecast(tx, driver.tenant, run_id)


def test_what_is_left_shrinks_as_steps_end(driver: RunDriver, clock: Clock) -> None:
    first, second = driver.trigger("p"), driver.trigger("p")
    assert forecast(driver, first)["leftMs"] is None, "no run has completed"
    # 400 s: a for 100, the map for 200 beside b for 50, end for 100.
    work(driver, clock, first, A, 100)
    for item in range(ITEMS):
        work(driver, clock, first, FIRST_ITEM + item, 50)
    driver.check(first, M)
    work(driver, clock, first, B, 50)
    work(driver, clock, first, END, 100)
    ended = forecast(driver, first)
    assert (ended["status"], ended["leftMs"], ended["endsAt"]) == ("completed", None, None)

    with driver.database.transaction() as tx:
        [a] = claiming.start(tx, second, [A], 1, worker="w1")
    found = forecast(driver, second)
    assert (found["runs"], found["tooFewRuns"], found["unknownSteps"]) == (1, True, 0)
    assert seconds_left(driver, second) == pytest.approx(400, abs=5)
    clock.ahead += timedelta(seconds=60)
    assert seconds_left(driver, second) == pytest.approx(340, abs=5)
    clock.ahead += timedelta(seconds=400)
    assert seconds_left(driver, second) == pytest.approx(300, abs=5), "what takes long ends at once"
    with driver.database.transaction() as tx:
        settle(tx, a)
    for item in range(ITEMS // 2):
        work(driver, clock, second, FIRST_ITEM + item, 50)
    assert seconds_left(driver, second) == pytest.approx(200, abs=5), "half of the map, and the end"


def seconds_left(driver: RunDriver, run_id: UUID) -> float:
    return float(forecast(driver, run_id)["leftMs"]) / 1_000


def test_the_run_of_another_tenant_is_not_there(driver: RunDriver) -> None:
    run_id = driver.trigger("p")
    with driver.database.reading() as tx, pytest.raises(NotFound):
        reading.run_forecast(tx, "somebody-else", run_id)
