"""Task runs that a child calls beside those of its message: the front of its queue, and no more."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.factories import a_task, register
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.queueing import alongside
from pipeweave.orchestrator.runs import pausing
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> RunDriver:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, a_task("fetch"), a_task("plain"))
    for task in ("fetch", "plain"):
        made.store({"each": []}, id=task, tasks={"each": task})
    return made


def claimed(driver: RunDriver, beside: UUID | None = None, **room: int) -> list[UUID]:
    """The runs of which something was claimed."""
    queue = f"pipeweave.{driver.tenant}.python"
    with driver.database.transaction() as tx:
        found = alongside.claim(tx, queue, beside or ids.new_id(), room, worker="w#1")
    assert all(header.id == each.run_id for header, _, each_of in found for each in each_of)
    return [header.id for header, _, _ in found]


def test_the_front_of_the_queue_is_claimed_up_to_the_first_of_another_task(driver: RunDriver) -> None:
    first, second = driver.trigger("fetch"), driver.trigger("fetch")
    plain, behind = driver.trigger("plain"), driver.trigger("fetch")
    assert claimed(driver, beside=first, fetch=10) == [second]
    assert claimed(driver, fetch=10) == [first]
    assert claimed(driver, fetch=10) == []
    assert claimed(driver, fetch=10, plain=1) == [plain, behind]


def test_no_more_is_claimed_than_there_is_room_for(driver: RunDriver) -> None:
    runs = [driver.trigger("fetch") for _ in range(5)]
    assert claimed(driver, fetch=2) == runs[:2]
    assert claimed(driver, fetch=0) == []
    assert claimed(driver) == []
    assert claimed(driver, fetch=200) == runs[2:]
    assert driver.statuses(runs[0]) == {"each": "running"}


def test_nothing_of_a_paused_run_is_claimed_nor_in_its_way(driver: RunDriver) -> None:
    paused, other = driver.trigger("fetch"), driver.trigger("fetch")
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, paused))
    assert claimed(driver, fetch=10) == [other]
    driver.database.run(lambda tx: pausing.resume(tx, driver.tenant, paused))


def test_a_later_attempt_is_left_to_its_own_message(driver: RunDriver) -> None:
    run_id = driver.trigger("fetch")
    driver.rows("UPDATE task_runs SET attempt = 3 WHERE run_id = :id RETURNING 1", id=run_id)
    assert claimed(driver, fetch=10) == []
