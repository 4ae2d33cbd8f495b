"""A step without an attempt left pauses its run where that is said, and the resume tries it again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, only_child
from support.concurrency import call_concurrently
from support.factories import a_task, register
from support.failed_runs import called, differences, letters
from support.inline_worker import InlineWorker, failing
from support.run_driver import PERMANENT, RunDriver, claim, settle

from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.runs import pausing, standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepRetry, StepSpec
from pipeweave.spec.rules import CONTINUE, FAILURE_MODES, PARTIAL_MERGE

PAUSE = "pause"
ONCE = StepRetry(attempts=1)


@pytest.fixture
def worker(database: Database) -> InlineWorker:
    """Of a tenant with a task `careful` that pauses its runs itself."""
    driver = RunDriver(database)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("careful", on_exhausted=PAUSE, retries=0), id="careful")
    return InlineWorker(driver)


def store(driver: RunDriver, task: str = "noop", *, failure_mode: str = "fail-fast", **rules: Any) -> None:
    """Store a pipeline of a step `a`, its successor, and a step `Beside` them, which comes first."""
    pipeline = rules.pop("pipeline", {})
    rules.setdefault("retry", ONCE)
    driver.store_steps(
        StepSpec("Beside", "noop"),
        StepSpec("a", task, **rules),
        StepSpec("after", "noop", ("a",)),
        failure_mode=failure_mode,
        **pipeline,
    )


def ran(worker: InlineWorker, *failing_steps: Any) -> UUID:
    worker.fails = failing(*failing_steps)
    run_id = worker.driver.trigger()
    worker.consume_all()
    return run_id


def resume(driver: RunDriver, run_id: UUID) -> bool:
    return driver.database.run(lambda tx: pausing.resume(tx, driver.tenant, run_id, by="ops"))


def pauses(driver: RunDriver, run_id: UUID) -> list[Any]:
    return driver.rows("SELECT * FROM run_pauses WHERE run_id = :id", id=run_id)


# --- the pause --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FAILURE_MODES)
def test_the_run_is_paused_and_a_resume_tries_the_step_again(worker: InlineWorker, mode: str) -> None:
    driver = worker.driver
    store(driver, on_exhausted=PAUSE, failure_mode=mode)
    run_id = ran(worker, "a")
    assert driver.run(run_id).status == "paused"
    assert driver.statuses(run_id) == {"Beside": "completed", "a": "ready", "after": "pending"}
    [pause] = pauses(driver, run_id)
    assert (pause.reason, pause.paused_by) == ("step a has no attempt left: BOOM: it broke", None)
    assert letters(driver, run_id) == []

    worker.fails = {}
    assert resume(driver, run_id)
    worker.consume_all()
    assert driver.run(run_id).status == "completed"
    assert called(worker) == {"a": 2, "after": 1, "Beside": 1}
    assert differences(driver, run_id) == []


def test_the_failed_attempt_is_kept_with_its_error(worker: InlineWorker) -> None:
    driver = worker.driver
    store(driver, on_exhausted=PAUSE)
    run_id = ran(worker, "a")
    [attempt] = driver.rows("SELECT * FROM attempts WHERE run_id = :id", id=run_id)
    assert (attempt.number, attempt.status, attempt.error_code) == (1, "failed", "BOOM")
    assert attempt.error["message"] == "it broke"
    [event] = driver.events(run_id, "task_run.retrying")
    assert (event.data["cause"], event.data["errorCode"]) == ("exhausted", "BOOM")
    [event] = driver.events(run_id, "run.paused")
    assert event.data["reason"].startswith("step a has no attempt left")


def test_a_step_that_fails_again_pauses_the_run_again(worker: InlineWorker) -> None:
    driver = worker.driver
    store(driver, on_exhausted=PAUSE)
    run_id = ran(worker, "a")
    for _ in range(2):
        resume(driver, run_id)
        worker.consume_all()
        assert driver.run(run_id).status == "paused"
    assert called(worker)["a"] == 3
    assert differences(driver, run_id) == []


def test_it_gets_as_many_further_attempts_as_by_the_retry_of_a_dead_letter(worker: InlineWorker) -> None:
    driver = worker.driver
    store(driver, on_exhausted=PAUSE, retry=StepRetry(attempts=3))
    run_id = ran(worker, "a")
    row = driver.task_runs(run_id)[1]
    assert (row.status, row.attempt, row.max_attempts) == ("ready", 2, 4), "the first was not retryable"


def test_a_cancel_gives_up(worker: InlineWorker) -> None:
    driver = worker.driver
    store(driver, on_exhausted=PAUSE)
    run_id = ran(worker, "a")
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))
    assert driver.run(run_id).status == "cancelled"
    assert (pauses(driver, run_id), letters(driver, run_id)) == ([], [])
    assert differences(driver, run_id) == []


def test_why_names_the_step_and_the_command_that_goes_on(worker: InlineWorker) -> None:
    driver = worker.driver
    store(driver, on_exhausted=PAUSE)
    run_id = ran(worker, "a")
    with driver.database.reading() as tx:
        [first, *_] = why.why(tx, driver.tenant, driver.task_runs(run_id)[1].id, lambda _: {})["reasons"]
    assert first["code"] == "run_paused"
    assert "step a has no attempt left: BOOM: it broke" in first["text"]
    assert "`pipeweave resume prun_" in first["text"]


def test_a_run_that_people_have_paused_keeps_their_reason(worker: InlineWorker) -> None:
    driver = worker.driver
    store(driver, on_exhausted=PAUSE)
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 2)
    assert started is not None
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, run_id, reason="lunch", by="ana"))
    with driver.database.transaction() as tx:
        settle(tx, started, failure=PERMANENT)
    [pause] = pauses(driver, run_id)
    assert (pause.reason, driver.statuses(run_id)["a"]) == ("lunch", "ready")
    assert resume(driver, run_id)
    worker.consume_all()
    assert driver.run(run_id).status == "completed"


# --- who says it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "of_pipeline", "of_step", "status"),
    [
        ("noop", None, None, "failed"),
        ("noop", "pause", None, "paused"),
        ("noop", "pause", "fail", "failed"),
        ("noop", None, "pause", "paused"),
        ("careful", None, None, "paused"),
        ("careful", "fail", None, "failed"),
        ("careful", "fail", "pause", "paused"),
        ("careful", None, "fail", "failed"),
    ],
)
@pytest.mark.parametrize("mode", ["fail-fast", CONTINUE])
def test_the_nearest_place_decides(
    worker: InlineWorker, task: str, of_pipeline: str | None, of_step: str | None, status: str, mode: str
) -> None:
    driver = worker.driver
    store(driver, task, on_exhausted=of_step, pipeline={"on_exhausted": of_pipeline}, failure_mode=mode)
    run_id = ran(worker, "a")
    assert driver.run(run_id).status == status
    assert len(letters(driver, run_id)) == (status == "failed")
    assert differences(driver, run_id) == []


def test_a_tolerated_failure_goes_on_whatever_the_pipeline_says(worker: InlineWorker) -> None:
    driver = worker.driver
    store(driver, "careful", continue_on_error=True, pipeline={"on_exhausted": PAUSE})
    run_id = ran(worker, "a")
    assert driver.run(run_id).status == "completed"


def test_a_standalone_task_fails(worker: InlineWorker) -> None:
    driver = worker.driver
    with driver.database.transaction() as tx:
        standalone_tasks.enqueue(tx, driver.values, driver.tenant, [QueueRequest("careful", {})])
    worker.fails = failing("careful")
    worker.consume_all()
    assert [each.status for each in letters(driver)] == ["failed"]


# --- maps, trees, races -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fail-fast", PARTIAL_MERGE])
def test_an_item_without_an_attempt_left_waits_with_those_that_have_not_begun(
    worker: InlineWorker, mode: str
) -> None:
    driver = worker.driver
    driver.store(
        {"m": [], "after": ["m"]},
        tasks={"m": "careful"},
        maps={"m": [1, 2, 3, 4]},
        failureMode=mode,
    )
    run_id = ran(worker, ("m", 1))
    assert driver.run(run_id).status == "paused"
    assert [row.map_index for row in driver.task_runs(run_id) if row.status == "ready"] == [1, 2, 3]
    worker.fails = {}
    resume(driver, run_id)
    worker.consume_all()
    assert driver.run(run_id).status == "completed"
    assert called(worker) == {"m": 5, "after": 1}
    assert differences(driver, run_id) == []


def test_the_children_of_the_run_are_paused_with_it(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    driver.store_steps(
        child("call", "inner"), StepSpec("a", "noop", retry=ONCE, on_exhausted=PAUSE), id="outer"
    )
    run_id = driver.trigger("outer")
    inner = only_child(driver, run_id)
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        settle(tx, started, failure=PERMANENT)
    assert [driver.run(each).status for each in (run_id, inner)] == ["paused", "paused"]
    resume(driver, run_id)
    worker.consume_all()
    assert [driver.run(each).status for each in (run_id, inner)] == ["completed", "completed"]


def test_a_step_of_a_child_pauses_the_child_and_its_parent_waits(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store_steps(StepSpec("work", "careful"), id="inner")
    driver.store_steps(child("call", "inner"), id="outer")
    worker.fails = failing("work")
    run_id = driver.trigger("outer")
    worker.consume_all()
    inner = only_child(driver, run_id)
    assert (driver.run(inner).status, driver.run(run_id).status) == ("paused", "running")
    worker.fails = {}
    resume(driver, inner)
    worker.consume_all()
    assert [driver.run(each).status for each in (inner, run_id)] == ["completed", "completed"]


@pytest.mark.parametrize("mode", ["fail-fast", CONTINUE])
def test_steps_that_fail_at_the_same_moment_pause_the_run_once(worker: InlineWorker, mode: str) -> None:
    driver = worker.driver
    driver.store_steps(*[StepSpec(f"s{each}", "careful") for each in range(4)], failure_mode=mode, id="wide")
    run_id = driver.trigger("wide")
    started = []
    for ordinal in (1, 2, 3, 4):
        with driver.database.transaction() as tx:
            started.append(claim(tx, run_id, ordinal))

    def fail_one(each: Any) -> None:
        def failing_turn(tx: Any) -> None:
            settle(tx, each, failure=PERMANENT)

        driver.database.run(failing_turn)

    calls = call_concurrently(*[lambda each=each: fail_one(each) for each in started])
    assert [each.error for each in calls] == [None] * 4
    assert len(pauses(driver, run_id)) == 1
    assert set(driver.statuses(run_id).values()) == {"ready"}
    assert len(driver.events(run_id, "run.paused")) == 1
    assert differences(driver, run_id) == []


@pytest.mark.parametrize("mode", ["fail-fast", CONTINUE])
def test_a_cancel_beside_the_last_failure_always_ends_the_run(worker: InlineWorker, mode: str) -> None:
    driver = worker.driver
    store(driver, "careful", failure_mode=mode, retry=None)
    for _ in range(5):
        run_id = driver.trigger()
        with driver.database.transaction() as tx:
            started = claim(tx, run_id, 2)
        assert started is not None
        call_concurrently(
            lambda each=started: driver.database.run(lambda tx: settle(tx, each, failure=PERMANENT)),
            lambda id=run_id: driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, id)),
        )
        assert driver.run(run_id).status == "cancelled"
        assert pauses(driver, run_id) == []
        assert differences(driver, run_id) == []
