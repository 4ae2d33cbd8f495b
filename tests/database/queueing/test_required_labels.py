"""Tasks, steps and triggers require labels of the workers that may call them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, only_child
from support.factories import a_task, register
from support.failed_runs import letters, retry
from support.inline_worker import InlineWorker, failing
from support.run_driver import RunDriver, claim

from pipeweave.authoring.task_loading import Loaded
from pipeweave.errors import InvalidInput, InvalidSpec
from pipeweave.labels import Labels
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
from pipeweave.workers.process.served_queues import ServedQueues

ONCE = StepRetry(attempts=1)
GPU, EU = {"gpu": "a100"}, {"zone": "eu"}


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    """A tenant with a task `render` that requires a GPU, beside `noop`, which requires nothing."""
    with isolated_driver.database.transaction() as tx:
        register(tx, isolated_driver.tenant, a_task("render", requires=GPU), "noop")
    return isolated_driver


def trigger(driver: RunDriver, id: str = "driven", **options: Any) -> UUID:
    with driver.database.transaction() as tx:
        return triggering.trigger(tx, driver.values, driver.tenant, StartRequest(id, **options)).id


def queues(driver: RunDriver, run_id: UUID) -> dict[str, str]:
    """The queue of each step, without that of the service."""
    base = queue_names.service_queue(driver.tenant, "python")
    return {row.step_id: row.queue.removeprefix(base) for row in driver.task_runs(run_id)}


def start_worker(driver: RunDriver, labels: Labels, *names: str) -> ServedQueues:
    """A live worker with `noop` and these labels that serves queues of these names; the default one alone if
    none are given.
    """
    served = ServedQueues.of(driver.tenant, "python", Loaded({}, []), names or ("default",), labels)
    start = WorkerStart(
        "python",
        f"{served.own}@host",
        "host",
        2,
        1,
        loaded=(LoadedTask("noop", a_task("noop").code_hash, is_served="default" in names or not names),),
        queues=served.all,
        own_queue=served.own,
        labels=labels,
    )
    with driver.database.transaction() as tx:
        worker_processes.register(tx, driver.tenant, start)
    return served


def hand_on_from_a_stranger(driver: RunDriver, run_id: UUID) -> str:
    """Let a worker without the task have the message; where the task run is then."""
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
    with driver.database.transaction() as tx:
        hand_on(tx, run_id, Unstarted([started], ()), worker="w1")
    return str(driver.task_runs(run_id)[0].queue)


def change(driver: RunDriver, statement: str, **parameters: Any) -> None:
    with driver.database.transaction() as tx:
        tx.execute(statement, {"tenant": driver.tenant, **parameters})


def first_reason(driver: RunDriver, run_id: UUID) -> tuple[str, str]:
    """Why the run's first task run waits."""
    with driver.database.transaction() as tx:
        task_run = driver.task_runs(run_id)[0].id
        [first, *_] = why.why(tx, driver.tenant, task_run, lambda _: defaultdict(lambda: 0.0))["reasons"]
    return first["code"], first["text"]


# --- which queue ------------------------------------------------------------------------------------------


def test_a_task_run_requires_what_its_task_its_run_and_its_step_do_the_nearest_value_counts(
    driver: RunDriver,
) -> None:
    driver.store_steps(
        StepSpec("a", "noop"),
        StepSpec("b", "render"),
        StepSpec("c", "noop", requires=EU),
        StepSpec("d", "render", requires={"gpu": "h100", "zone": "us"}),
        StepSpec("e", "render", queue="night"),
    )
    assert queues(driver, trigger(driver)) == {
        "a": "",
        "b": "+gpu=a100",
        "c": "+zone=eu",
        "d": "+gpu=h100+zone=us",
        "e": "/night+gpu=a100",
    }
    assert queues(driver, trigger(driver, requires={"zone": "ap"}, queue="big")) == {
        "a": "/big+zone=ap",
        "b": "/big+gpu=a100+zone=ap",
        "c": "/big+zone=eu",
        "d": "/big+gpu=h100+zone=us",
        "e": "/night+gpu=a100+zone=ap",
    }


def test_a_message_waits_where_only_workers_with_the_labels_read(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", requires={**GPU, **EU}))
    driver.sent.clear()
    trigger(driver)
    [queue] = {each.queue for each in driver.sent if hasattr(each, "queue")}
    assert queue in start_worker(driver, {**EU, **GPU, "arch": "arm"}).all
    for labels in ({}, GPU, EU, {**GPU, "zone": "us"}):
        assert queue not in start_worker(driver, labels).all


def test_items_retries_and_runs_inside_of_a_run_keep_what_they_require(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    driver.store_steps(
        StepSpec("a", "noop", map=MapSpec([1, 2]), requires=GPU),
        StepSpec("z", "noop", retry=ONCE),
        child("call", "inner"),
        id="outer",
    )
    worker = InlineWorker(driver)
    worker.fails = failing("z")
    run_id = trigger(driver, "outer", requires=EU)
    rows = driver.rows(
        "SELECT kind, requires FROM task_runs WHERE run_id = :id AND step_id = 'a' ORDER BY kind", id=run_id
    )
    assert [(row.kind, row.requires) for row in rows] == [
        ("item", {**GPU, **EU}),
        ("item", {**GPU, **EU}),
        ("map", {**GPU, **EU}),
    ]
    assert queues(driver, only_child(driver, run_id)) == {"work": "+zone=eu"}
    worker.consume_all()
    retry(driver, letters(driver, run_id)[0])
    assert queues(driver, run_id)["z"] == "+zone=eu"


def test_a_rerun_requires_what_its_run_required(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"))
    worker = InlineWorker(driver)
    run_id = trigger(driver, requires=EU)
    worker.consume_all()
    made = driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, Rerun(run_id)), is_one=False
    )
    assert queues(driver, made.id) == {"a": "+zone=eu"}


def test_a_run_does_not_require_labels_of_http_services(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "remote", id="web", kind="http")
    driver.store_steps(StepSpec("a", "remote"), StepSpec("b", "noop"))
    [a, b] = driver.task_runs(trigger(driver, requires=EU))
    assert (a.queue, a.requires) == (queue_names.dispatch_queue(driver.tenant), None)
    assert b.requires == EU


def test_more_labels_than_a_worker_can_have_are_refused_and_nothing_is_written(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "render"))
    with pytest.raises(InvalidInput, match="would require 7 labels") as caught:
        trigger(driver, requires={f"l{number}": "x" for number in range(6)})
    assert caught.value.errors[0].code == "limit_exceeded" and caught.value.hint
    assert driver.rows("SELECT id FROM runs WHERE tenant_id = :tenant", tenant=driver.tenant) == []


def test_a_pipeline_is_refused_whose_steps_require_what_no_worker_can_have(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "remote", id="web", kind="http")
    six = {f"l{number}": "x" for number in range(6)}
    with pytest.raises(InvalidSpec) as caught:
        driver.store_steps(
            StepSpec("a", "remote", requires=EU), StepSpec("b", "render", requires=six), StepSpec("c", "noop")
        )
    mistakes = [(each.field, each.code) for each in caught.value.errors]
    assert mistakes == [("steps[0].requires", "unsupported"), ("steps[1].requires", "limit_exceeded")]


def test_two_tenants_share_no_queue_of_the_same_labels(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    for each in (driver, other):
        each.store_steps(StepSpec("a", "noop", requires=EU))
    rows = [each.task_runs(trigger(each))[0] for each in (driver, other)]
    assert len({row.queue for row in rows}) == 2


# --- a task that changes ----------------------------------------------------------------------------------


def test_open_task_runs_follow_a_task_that_requires_something_else_now(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "render"), StepSpec("b", "render", requires={"gpu": "h100", **EU}))
    run_id = trigger(driver)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("render", requires={"gpu": "t4", "arch": "arm"}), "noop")
    assert task_moves.move_open(driver.database) == 2
    assert queues(driver, run_id) == {"a": "+arch=arm+gpu=t4", "b": "+arch=arm+gpu=h100+zone=eu"}
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "render", "noop")
    assert task_moves.move_open(driver.database) == 2
    assert queues(driver, run_id) == {"a": "", "b": "+gpu=h100+zone=eu"}


def test_a_task_that_moves_to_an_http_service_is_dispatched_whatever_was_chosen(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", requires=EU, queue="big"))
    run_id = trigger(driver)
    change(driver, "DELETE FROM workers WHERE tenant_id = :tenant")
    change(driver, "UPDATE services SET status = 'disconnected' WHERE tenant_id = :tenant")
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop", id="web", kind="http")
    assert task_moves.move_open(driver.database) == 1
    assert driver.task_runs(run_id)[0].queue == queue_names.dispatch_queue(driver.tenant)


# --- workers ----------------------------------------------------------------------------------------------


def test_what_a_worker_could_not_call_goes_on_only_with_the_labels(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", requires=GPU))
    start_worker(driver, EU)
    run_id = trigger(driver, requires={"arch": "arm"})
    assert queue_names.is_parking(hand_on_from_a_stranger(driver, run_id))
    assert placement.place_again(driver.database) == 0
    code, text = first_reason(driver, run_id)
    assert code == "task_not_loaded" and "the labels arch=arm, gpu=a100" in text

    start_worker(driver, GPU)
    assert placement.place_again(driver.database) == 0
    able = start_worker(driver, {**GPU, **EU, "arch": "arm"})
    assert placement.place_again(driver.database) == 1
    assert driver.task_runs(run_id)[0].queue == able.own


def test_parked_task_runs_wait_apart_by_what_they_require(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"))
    runs = [trigger(driver, requires=each) for each in (GPU, EU)]
    places = [hand_on_from_a_stranger(driver, each) for each in runs]
    assert all(map(queue_names.is_parking, places)) and len(set(places)) == 2
    able = start_worker(driver, EU)
    assert placement.place_again(driver.database) == 1
    assert [driver.task_runs(each)[0].queue for each in runs] == [places[0], able.own]


def test_workers_with_other_labels_have_other_queues_of_their_own(driver: RunDriver) -> None:
    assert len({start_worker(driver, each).own for each in ({}, GPU, EU)}) == 3


def test_what_was_left_in_the_own_queue_of_a_worker_keeps_its_labels(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", requires=GPU))
    run_id = trigger(driver)
    start_worker(driver, GPU)
    hand_on_from_a_stranger(driver, run_id)
    change(driver, "UPDATE workers SET stopped_at = now() WHERE tenant_id = :tenant")
    start_worker(driver, {})
    assert placement.place_again(driver.database) == 1
    assert queue_names.is_parking(driver.task_runs(run_id)[0].queue)


def test_a_worker_of_the_version_before_is_given_nothing_that_requires_labels(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", requires=GPU))
    run_id = trigger(driver)
    start_worker(driver, {})
    # It names no labels, whatever queues it says that it consumes.
    change(
        driver,
        "UPDATE workers SET labels = DEFAULT, queues = array_append(queues, :queue) "
        "WHERE tenant_id = :tenant",
        queue=driver.task_runs(run_id)[0].queue,
    )
    assert queue_names.is_parking(hand_on_from_a_stranger(driver, run_id))


def test_why_says_which_labels_no_worker_has(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", requires={**GPU, **EU}))
    run_id = trigger(driver)
    start_worker(driver, GPU)
    code, text = first_reason(driver, run_id)
    base = queue_names.service_queue(driver.tenant, "python")
    assert code == "no_worker"
    assert text == (
        f"no running worker that serves {base} has gpu=a100, zone=eu: it waits for one "
        "(`pipeweave worker --label gpu=a100 --label zone=eu`)"
    )
    start_worker(driver, {**GPU, **EU})
    assert first_reason(driver, run_id)[0] == "queued"
