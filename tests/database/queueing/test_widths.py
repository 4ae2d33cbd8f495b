"""How many task runs of an `async def` task share a message."""

from __future__ import annotations

import dataclasses

import pytest
from support.factories import a_task, a_worker, register
from support.run_driver import RunDriver

from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_over
from pipeweave.orchestrator.queueing import widths
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database, monkeypatch: pytest.MonkeyPatch) -> RunDriver:
    monkeypatch.setattr(widths, "FRESH_S", 0.0)
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, a_task("fetch"), a_task("plain"))
    return made


def start_worker(driver: RunDriver, *, concurrent: int, children: int) -> str:
    """A worker whose children call `fetch` so many times at once, and `plain` once; its id."""
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver.tenant, "fetch", "plain", name=f"w{concurrent}")
        tx.execute("UPDATE workers SET concurrency = :n WHERE id = :id", {"n": children, "id": worker})
        tx.execute(
            "UPDATE worker_tasks SET concurrent = :n WHERE worker_id = :id AND task_id = 'fetch'",
            {"n": concurrent, "id": worker},
        )
    return worker


def found(driver: RunDriver, **counts: int) -> dict[str, int]:
    with driver.database.transaction() as tx:
        return widths.find(tx, driver.tenant, counts)


@pytest.mark.parametrize(
    ("count", "concurrent", "children", "expected"),
    [(200, 200, 1, 200), (200, 100, 1, 100), (200, 100, 8, 25), (3, 100, 8, 1), (9, 100, 8, 2)],
)
def test_every_child_gets_a_part_and_none_more_than_it_may_call(
    count: int, concurrent: int, children: int, expected: int
) -> None:
    assert widths.width(count, concurrent, children) == expected


def test_the_children_of_all_live_workers_count(driver: RunDriver) -> None:
    assert found(driver, fetch=100, plain=100) == {}
    start_worker(driver, concurrent=200, children=3)
    stopped = start_worker(driver, concurrent=50, children=2)
    assert found(driver, fetch=100, plain=100) == {"fetch": 20}
    assert found(driver, fetch=1_000) == {"fetch": 50}
    assert found(driver, fetch=1, plain=1) == {}
    driver.rows("UPDATE workers SET stopping_at = now() WHERE id = :id RETURNING 1", id=stopped)
    assert found(driver, fetch=1_000) == {"fetch": 200}


def test_what_was_found_is_remembered_for_a_while(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widths, "FRESH_S", 600.0)
    assert found(driver, fetch=100) == {}
    start_worker(driver, concurrent=200, children=1)
    assert found(driver, fetch=100) == {}
    monkeypatch.setattr(widths, "FRESH_S", 0.0)
    assert found(driver, fetch=100) == {"fetch": 100}


def test_what_is_handed_over_shares_a_message_again(driver: RunDriver) -> None:
    start_worker(driver, concurrent=10, children=1)
    steps = [f"s{n}" for n in range(4)]
    driver.store({each: [] for each in steps}, tasks=dict.fromkeys(steps, "fetch"))
    run_id = driver.trigger()
    entries: list[object] = []
    driver.database.sender = entries.extend
    with driver.database.transaction() as tx:
        claimed = claiming.start(tx, run_id, [1, 2], 1, worker="w")
        hand_over(tx, run_id, Unstarted(claimed, [3, 4], 1), worker="w")
    assert [dataclasses.asdict(each)["together"] for each in entries] == [4] * 4  # type: ignore[call-overload]
