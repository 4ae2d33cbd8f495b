"""Where task runs go on that reached a worker which cannot call them."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.factories import a_task, a_worker, own_queue_of, register
from support.run_driver import TRANSIENT, RunDriver, claim, settle

from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_on
from pipeweave.orchestrator.messaging.batching import group_into_messages
from pipeweave.orchestrator.queueing import pauses, placement
from pipeweave.orchestrator.recovery import lost_messages
from pipeweave.orchestrator.registry import worker_processes


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    return isolated_driver


def service_queue(driver: RunDriver) -> str:
    return queue_names.service_queue(driver.tenant, "python")


def start_worker(driver: RunDriver, *tasks: str) -> str:
    """A live worker with these tasks; its own queue."""
    with driver.database.transaction() as tx:
        a_worker(tx, driver.tenant, *tasks)
    return own_queue_of(driver.tenant, *tasks)


def stop_workers(driver: RunDriver) -> None:
    found = driver.rows("SELECT id FROM workers WHERE tenant_id = :id", id=driver.tenant)
    with driver.database.transaction() as tx:
        for row in found:
            worker_processes.stop(tx, row.id)


def hand_on_all(driver: RunDriver, run_id: UUID, *ordinals: int) -> list[TaskRun]:
    """A worker claims the first of these task runs, and cannot call any of them."""
    driver.sent.clear()
    with driver.database.transaction() as tx:
        claimed = claim(tx, run_id, ordinals[0])
        assert claimed is not None
    with driver.database.transaction() as tx:
        return hand_on(tx, run_id, Unstarted([claimed], ordinals[1:]), worker="w1")


def messages(driver: RunDriver) -> list[tuple[str, tuple[int, ...]]]:
    """Queue and ordinals of the messages that left since the last look."""
    sent = [(each.queue, each.ordinals) for each in group_into_messages(driver.sent).messages]
    driver.sent.clear()
    return sent


def test_a_task_run_goes_on_in_the_own_queue_of_a_worker_that_has_its_task(driver: RunDriver) -> None:
    own = start_worker(driver, "noop", "single")
    start_worker(driver, "limited")
    run_id = driver.begin({"a": [], "b": []})
    placed = hand_on_all(driver, run_id, 1, 2)
    assert [each.queue for each in placed] == [own, own]
    assert sorted(messages(driver)) == [(own, (1,)), (own, (2,))]
    assert [(row.status, row.attempt, row.worker) for row in driver.task_runs(run_id)] == [
        ("queued", 1, None),
        ("queued", 1, None),
    ]


def test_without_such_a_worker_it_waits_without_a_message_and_is_not_taken_for_lost(
    driver: RunDriver,
) -> None:
    start_worker(driver, "limited")
    run_id = driver.begin({"a": []})
    [placed] = hand_on_all(driver, run_id, 1)
    assert queue_names.is_parking(placed.queue)
    assert messages(driver) == [], "it waits as a row"
    [row] = driver.task_runs(run_id)
    with driver.database.transaction() as tx:
        found = tx.execute(lost_messages.OLDEST, {"late": row.queued_at.replace(year=2100)}).all()
    assert row.queue not in [each.queue for each in found]
    assert placement.place_again(driver.database) == 0, "nobody has it yet"


def test_what_waits_goes_on_when_a_worker_with_its_task_comes(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": []})
    hand_on_all(driver, run_id, 1, 2)
    own = start_worker(driver, "noop")
    assert placement.place_again(driver.database) == 2
    assert sorted(messages(driver)) == [(own, (1,)), (own, (2,))]
    assert placement.place_again(driver.database) == 0, "they were placed once"


def test_many_that_wait_for_nobody_do_not_stand_before_those_that_can_go(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "BATCH", 2)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "gone")
    driver.store({"a": []}, id="gone", tasks={"a": "gone"})
    for _ in range(5):
        hand_on_all(driver, driver.trigger("gone"), 1)
    waiting = driver.begin({"b": []})
    hand_on_all(driver, waiting, 1)
    own = start_worker(driver, "noop")
    assert placement.place_again(driver.database) == 1
    assert messages(driver) == [(own, (1,))]


def test_what_is_left_in_the_own_queue_of_workers_that_are_gone_goes_to_others_or_waits(
    driver: RunDriver,
) -> None:
    start_worker(driver, "noop", "single")
    run_id = driver.begin({"a": []})
    hand_on_all(driver, run_id, 1)
    assert placement.place_again(driver.database) == 0, "a live worker consumes it"
    stop_workers(driver)
    assert placement.place_again(driver.database) == 1
    assert queue_names.is_parking(driver.task_runs(run_id)[0].queue)
    own = start_worker(driver, "noop")
    placement.place_again(driver.database)
    assert driver.task_runs(run_id)[0].queue == own


def test_a_worker_that_was_asked_to_stop_gets_nothing_more(driver: RunDriver) -> None:
    start_worker(driver, "noop", "single")
    run_id = driver.begin({"a": []})
    hand_on_all(driver, run_id, 1)
    own = start_worker(driver, "noop")
    stopping = driver.rows(
        "SELECT id FROM workers WHERE tenant_id = :id AND task_count = 2", id=driver.tenant
    )
    with driver.database.transaction() as tx:
        assert worker_processes.beat(tx, stopping[0].id, stops=True)
    assert placement.place_again(driver.database) == 1
    assert driver.task_runs(run_id)[0].queue == own


def test_a_worker_that_does_not_serve_the_queue_of_the_task_gets_nothing(driver: RunDriver) -> None:
    start_worker(driver, "noop")
    driver.rows(
        "UPDATE worker_tasks SET is_served = false WHERE tenant_id = :id RETURNING 1", id=driver.tenant
    )
    run_id = driver.begin({"a": []})
    [placed] = hand_on_all(driver, run_id, 1)
    assert queue_names.is_parking(placed.queue)


def test_another_attempt_stays_with_the_worker_that_has_the_task(driver: RunDriver) -> None:
    own = start_worker(driver, "noop")
    run_id = driver.begin({"a": []})
    hand_on_all(driver, run_id, 1)
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1, "other")
        assert started is not None
        settle(tx, started, failure=TRANSIENT)
    [row] = driver.task_runs(run_id)
    assert (row.queue, row.attempt, row.status) == (own, 2, "pending")


def test_a_paused_task_run_is_held_back_wherever_it_waits(driver: RunDriver) -> None:
    own = start_worker(driver, "single")
    driver.store({"a": [], "b": []}, tasks={"a": "noop", "b": "single"})
    run_id = driver.trigger()
    driver.rows("UPDATE task_runs SET queue = queue || '#waiting#noop' WHERE step_id = 'a' RETURNING 1")
    driver.rows(f"UPDATE task_runs SET queue = '{own}', status = 'queued' WHERE step_id = 'b' RETURNING 1")
    with driver.database.transaction() as tx:
        pauses.pause(tx, driver.tenant)
    assert driver.statuses(run_id) == {"a": "ready", "b": "ready"}
    driver.sent.clear()
    with driver.database.transaction() as tx:
        pauses.resume(tx, driver.tenant)
    assert driver.statuses(run_id)["a"] == "queued"
    assert [queue for queue, _ in messages(driver)] == [own], "nothing is sent to who waits for a worker"


# --- pinned runs ------------------------------------------------------------------------------------------


def test_a_pinned_run_goes_on_only_with_the_code_that_it_began_with(driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"]}, id="pinned", code="pinned")
    driver.store({"a": []}, id="any")
    pinned, free = driver.trigger("pinned"), driver.trigger("any")
    new = a_task("noop", "second")
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, new)
        a_worker(tx, driver.tenant, new)
    [waits] = hand_on_all(driver, pinned, 1)
    assert queue_names.is_parking(waits.queue)
    [goes] = hand_on_all(driver, free, 1)
    assert goes.queue == own_queue_of(driver.tenant, new)
    assert placement.place_again(driver.database) == 0
    old = start_worker(driver, "noop")
    assert placement.place_again(driver.database) == 1
    assert driver.task_runs(pinned)[0].queue == old


@pytest.mark.parametrize(("code", "version"), [("pinned", 1), ("any", 2)])
def test_another_attempt_of_a_pinned_run_keeps_its_code(driver: RunDriver, code: str, version: int) -> None:
    run_id = driver.begin({"a": []}, code=code)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("noop", "second"))
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        settle(tx, started, failure=TRANSIENT)
    assert [(row.attempt, row.code_version) for row in driver.task_runs(run_id)] == [(2, version)]


# --- limits -----------------------------------------------------------------------------------------------


def test_what_waits_for_a_worker_gives_its_slot_back_and_takes_one_when_it_is_placed(
    driver: RunDriver,
) -> None:
    """One at a time: a pinned run whose code no worker has, and a run that any worker may take."""
    driver.store({"a": []}, id="pinned", tasks={"a": "single"}, code="pinned")
    driver.store({"a": []}, id="any", tasks={"a": "single"})
    new = a_task("single", "second", concurrency=1)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, new)
    pinned, free = driver.trigger("pinned"), driver.trigger("any")
    driver.rows("UPDATE task_runs SET code_hash = 'gone' WHERE run_id = :id RETURNING 1", id=pinned)
    with driver.database.transaction() as tx:
        a_worker(tx, driver.tenant, new)
    assert [driver.statuses(each)["a"] for each in (pinned, free)] == ["queued", "ready"]
    [waits] = hand_on_all(driver, pinned, 1)
    assert queue_names.is_parking(waits.queue)
    assert driver.statuses(free)["a"] == "queued"
    assert driver.released(free) == [1]

    driver.rows("UPDATE worker_tasks SET code_hash = 'gone' RETURNING 1")
    driver.sent.clear()
    assert placement.place_again(driver.database) == 1
    assert driver.statuses(pinned)["a"] == "ready", "the other one has the slot"
    assert driver.sent == []
    driver.finish(free, "a")
    assert driver.statuses(pinned)["a"] == "queued"
    assert messages(driver) == [(own_queue_of(driver.tenant, new), (1,))]


def test_no_message_leaves_for_a_parking_queue() -> None:
    parked = Released(UUID(int=0), 1, 1, "a", "pipeweave.t.python#waiting#a", 100)
    assert group_into_messages([parked]).messages == ()
