"""What is open of a task follows it to its new service, and under a limit that it did not have."""

from __future__ import annotations

import pytest
from support.concurrency import BackgroundCall
from support.factories import a_task, register
from support.run_driver import RunDriver, claim, header, settle

from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.recovery import task_moves
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.registry import task_rows

TASKS = ("noop", "limited", "single")


def take_over(driver: RunDriver, *tasks: str) -> str:
    """Let a new service take tasks over from the one that is gone. Its queue."""
    gone = "UPDATE services SET status = 'inactive' WHERE tenant_id = :id AND id = 'python' RETURNING 1"
    driver.rows(gone, id=driver.tenant)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, *(tasks or TASKS), id="renamed")
    return task_rows.queue_name(driver.tenant, "renamed")


def queues(driver: RunDriver, run_id: object) -> list[str]:
    return [
        row.queue
        for row in driver.rows("SELECT queue FROM task_runs WHERE run_id = :id ORDER BY id", id=run_id)
    ]


def time_passes(driver: RunDriver) -> None:
    past = "UPDATE tasks SET follow_at = now(), follow_until = now() WHERE tenant_id = :id RETURNING 1"
    driver.rows(past, id=driver.tenant)


def marked(driver: RunDriver) -> list[str]:
    found = "SELECT id FROM tasks WHERE tenant_id = :id AND follow_at IS NOT NULL ORDER BY id"
    return [row.id for row in driver.rows(found, id=driver.tenant)]


def test_open_task_runs_move_to_the_queue_of_the_new_service(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["b"]})
    before = queues(driver, run_id)[0]
    driver.finish(run_id, "a")
    queue = take_over(driver)
    assert task_moves.move_open(driver.database) == 2
    assert queues(driver, run_id) == [before, queue, queue]


def test_pending_runs_and_running_task_runs_move_too(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one")
    running, waiting = driver.trigger("one"), driver.trigger("one")
    with driver.database.transaction() as tx:
        assert claim(tx, running, 1) is not None
        tx.execute("UPDATE runs SET status = 'pending', started_at = NULL WHERE id = :id", {"id": waiting})
    queue = take_over(driver)
    assert task_moves.move_open(driver.database) == 2
    assert queues(driver, running) + queues(driver, waiting) == [queue, queue]


def test_locked_task_runs_are_moved_by_the_next_pass(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one")
    held, free = driver.trigger("one"), driver.trigger("one")
    queue = take_over(driver)
    with driver.database.transaction() as tx:
        assert claim(tx, held, 1) is not None
        with BackgroundCall(lambda: task_moves.move_open(driver.database)) as beside:
            assert beside.result == 1
    assert queues(driver, free) == [queue]
    assert queues(driver, held) != [queue]
    assert task_moves.move_open(driver.database) == 1
    assert queues(driver, held) == [queue]


def test_task_runs_written_while_the_task_changed_are_moved_by_a_second_pass(driver: RunDriver) -> None:
    driver.store({"a": []}, id="one")
    queue = take_over(driver)
    assert task_moves.move_open(driver.database) == 0
    late = driver.trigger("one")
    driver.rows("UPDATE task_runs SET queue = 'old' WHERE run_id = :id RETURNING 1", id=late)
    assert task_moves.move_open(driver.database) == 0
    time_passes(driver)
    assert task_moves.move_open(driver.database) == 1
    assert queues(driver, late) == [queue]


def test_a_move_ends_after_two_passes_that_found_nothing(driver: RunDriver) -> None:
    take_over(driver)
    assert marked(driver) == sorted(TASKS)
    task_moves.move_open(driver.database)
    assert marked(driver) == sorted(TASKS)
    time_passes(driver)
    task_moves.move_open(driver.database)
    assert marked(driver) == []


def test_a_pass_moves_one_batch_and_the_next_pass_goes_on(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_moves, "BATCH", 2)
    run_id = driver.begin({"a": [], "b": [], "c": []})
    queue = take_over(driver)
    assert [task_moves.move_open(driver.database) for _ in range(3)] == [2, 1, 0]
    assert queues(driver, run_id) == [queue] * 3


def test_a_registration_that_changes_neither_marks_nothing(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("noop", "second"), a_task("limited", concurrency=5), "single")
    assert marked(driver) == []


def test_other_tenants_tasks_of_that_name_stay_where_they_are(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    run_id = other.begin({"a": []})
    before = queues(other, run_id)
    take_over(driver)
    assert task_moves.move_open(driver.database) == 0
    assert queues(other, run_id) == before


def test_the_end_of_a_run_is_asked_for_where_its_tasks_are_now(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        settle(tx, started)
    driver.rows(
        "UPDATE runs SET status = 'running', finished_at = NULL WHERE id = :id RETURNING 1", id=run_id
    )
    queue = take_over(driver)
    with driver.database.transaction() as tx:
        checks = closed_joins(tx, {run_id: header(tx, run_id).plan})
    assert [(each.join, each.queue) for each in checks] == [(END, queue)]
