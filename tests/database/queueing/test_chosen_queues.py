"""Steps and triggers choose queues in place of those of the tasks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, only_child
from support.factories import a_task, register
from support.failed_runs import letters, retry
from support.inline_worker import InlineWorker, failing
from support.run_driver import RunDriver, claim

from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_on
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.recovery import task_moves
from pipeweave.orchestrator.registry import LoadedTask, worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.runs import rerunning, triggering
from pipeweave.orchestrator.runs.rerunning import Rerun
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.spec import MapSpec, StepRetry, StepSpec

ONCE = StepRetry(attempts=1)


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    """A tenant with a task `render` that has a queue, beside `noop`, which has none."""
    with isolated_driver.database.transaction() as tx:
        register(tx, isolated_driver.tenant, a_task("render", queue="gpu"), "noop")
    return isolated_driver


def trigger(driver: RunDriver, id: str = "driven", queue: str | None = None, input: Any = None) -> UUID:
    request = StartRequest(id, input, queue=queue)
    with driver.database.transaction() as tx:
        return triggering.trigger(tx, driver.values, driver.tenant, request).id


def queues(driver: RunDriver, run_id: UUID) -> dict[str, str]:
    """The queue of each step, without that of the service; `-` for that one."""
    base = queue_names.service_queue(driver.tenant, "python")
    rows = driver.task_runs(run_id)
    return {row.step_id: row.queue.removeprefix(base).removeprefix("/") or "-" for row in rows}


def test_a_step_chooses_first_then_the_trigger_then_the_task(driver: RunDriver) -> None:
    driver.store_steps(
        StepSpec("a", "noop"),
        StepSpec("b", "render"),
        StepSpec("c", "noop", queue="big"),
        StepSpec("d", "render", queue="default"),
    )
    assert queues(driver, trigger(driver)) == {"a": "-", "b": "gpu", "c": "big", "d": "-"}
    assert queues(driver, trigger(driver, queue="night")) == {
        "a": "night",
        "b": "night",
        "c": "big",
        "d": "-",
    }
    assert queues(driver, trigger(driver, queue="default")) == {"a": "-", "b": "-", "c": "big", "d": "-"}


def test_the_messages_go_to_the_queue_that_was_chosen(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"), StepSpec("b", "noop", queue="big"))
    driver.sent.clear()
    trigger(driver, queue="night")
    base = queue_names.service_queue(driver.tenant, "python")
    assert {each.queue for each in driver.sent if hasattr(each, "queue")} == {f"{base}/night", f"{base}/big"}


def test_items_retries_and_runs_inside_of_a_run_keep_the_queue(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    driver.store_steps(
        StepSpec("a", "noop", map=MapSpec([1, 2]), queue="big"),
        StepSpec("z", "noop", retry=ONCE),
        child("call", "inner"),
        id="outer",
    )
    worker = InlineWorker(driver)
    worker.fails = failing("z")
    run_id = trigger(driver, "outer", queue="night")
    rows = driver.rows(
        "SELECT kind, queue_name FROM task_runs WHERE run_id = :id AND step_id = 'a'", id=run_id
    )
    assert sorted((row.kind, row.queue_name) for row in rows) == [
        ("item", "big"),
        ("item", "big"),
        ("map", "big"),
    ]
    assert queues(driver, only_child(driver, run_id)) == {"work": "night"}
    worker.consume_all()
    retry(driver, letters(driver, run_id)[0])
    assert queues(driver, run_id)["z"] == "night"


def test_a_rerun_has_the_queue_of_its_run(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"))
    worker = InlineWorker(driver)
    run_id = trigger(driver, queue="night")
    worker.consume_all()
    made = driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, Rerun(run_id)), is_one=False
    )
    assert queues(driver, made.id) == {"a": "night"}


def test_a_task_of_an_http_service_has_no_queue_to_choose(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "remote", id="web", kind="http")
    driver.store_steps(StepSpec("a", "remote"), StepSpec("b", "noop"))
    [a, b] = driver.task_runs(trigger(driver, queue="night"))
    assert (a.queue, a.queue_name) == (queue_names.dispatch_queue(driver.tenant), None)
    assert b.queue_name == "night"


def test_what_was_chosen_stays_when_the_task_changes_its_queue(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "render"), StepSpec("b", "render", queue="big"))
    run_id = trigger(driver)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("render", code="second", queue="gpu2"), "noop")
    assert task_moves.move_open(driver.database) == 1
    assert queues(driver, run_id) == {"a": "gpu2", "b": "big"}


def start_worker(driver: RunDriver, *names: str) -> str:
    """A live worker with `noop` that serves queues of these names alone; its own queue."""
    base = queue_names.service_queue(driver.tenant, "python")
    own = queue_names.own_queue(base, "-".join(names))
    start = WorkerStart(
        "python",
        f"{own}@host",
        "host",
        2,
        1,
        loaded=(LoadedTask("noop", a_task("noop").code_hash, is_served="default" in names),),
        queues=(*(queue_names.named_queue(base, each) for each in names), own),
        own_queue=own,
    )
    with driver.database.transaction() as tx:
        worker_processes.register(tx, driver.tenant, start)
    return own


def hand_on_from_a_stranger(driver: RunDriver, run_id: UUID) -> str:
    """Let a worker without the task have the message; where the task run is then."""
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
    with driver.database.transaction() as tx:
        hand_on(tx, run_id, Unstarted([started], ()), worker="w1")
    return str(driver.task_runs(run_id)[0].queue)


def test_only_a_worker_that_serves_the_chosen_queue_takes_what_another_could_not_call(
    driver: RunDriver,
) -> None:
    driver.store_steps(StepSpec("a", "noop", queue="big"))
    start_worker(driver, "default")
    run_id = trigger(driver)
    assert queue_names.is_parking(hand_on_from_a_stranger(driver, run_id))
    assert placement.place_again(driver.database) == 0
    with driver.database.transaction() as tx:
        task_run = driver.task_runs(run_id)[0].id
        [first, *_] = why.why(tx, driver.tenant, task_run, lambda _: [])["reasons"]
    assert first["code"] == "task_not_loaded"
    assert "serves the queue big" in first["text"]

    own = start_worker(driver, "big")
    assert placement.place_again(driver.database) == 1
    assert driver.task_runs(run_id)[0].queue == own


def test_parked_task_runs_wait_apart_by_the_queue_that_they_have_chosen(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"))
    runs = [trigger(driver, queue=each) for each in ("big", "night")]
    places = [hand_on_from_a_stranger(driver, each) for each in runs]
    assert all(map(queue_names.is_parking, places)) and len(set(places)) == 2
    own = start_worker(driver, "night")
    assert placement.place_again(driver.database) == 1
    assert [driver.task_runs(each)[0].queue for each in runs] == [places[0], own]


def test_two_tenants_share_no_queue_of_the_same_name(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    for each in (driver, other):
        each.store_steps(StepSpec("a", "noop"))
    rows = [each.task_runs(trigger(each, queue="night"))[0] for each in (driver, other)]
    assert len({row.queue for row in rows}) == 2
    assert all(row.tenant_id.replace(".", "/") in row.queue for row in rows)
