"""Steps with a condition: they run, or are passed over, and what follows them goes on."""

from __future__ import annotations

import pytest
from support.engine_steps import choice, transform
from support.run_driver import PERMANENT, RunDriver

from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import Case, MapSpec, StepSpec

A = StepSpec("a", "noop")
B = StepSpec("b", "noop", ("a",), condition="steps.a.n > 3")
C = StepSpec("c", "noop", ("b",))


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def assert_verified(driver: RunDriver, run_id: object) -> None:
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []  # type: ignore[arg-type]


def test_a_step_whose_condition_is_true_runs(driver: RunDriver) -> None:
    driver.store_steps(A, B, C)
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"n": 4})
    assert driver.statuses(run_id) == {"a": "completed", "b": "queued", "c": "pending"}
    driver.finish(run_id, "b", "c")
    assert driver.run(run_id).status == "completed"
    assert_verified(driver, run_id)


def test_a_step_whose_condition_is_false_is_passed_over_and_what_follows_it_runs(driver: RunDriver) -> None:
    driver.store_steps(A, B, C)
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"n": 3})
    assert driver.statuses(run_id) == {"a": "completed", "b": "skipped", "c": "queued"}
    [event] = driver.events(run_id, "task_runs.skipped")
    assert event.data == {"ordinals": [[2, 2]], "errorCode": "CONDITION_FALSE", "cause": "condition"}
    driver.finish(run_id, "c")
    assert driver.run(run_id).status == "completed"
    assert_verified(driver, run_id)


def test_a_condition_that_cannot_be_evaluated_fails_its_step_for_good(driver: RunDriver) -> None:
    driver.store_steps(A, B, C)
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"n": "many"})
    assert driver.run(run_id).status == "failed"
    row = driver.task_runs(run_id)[1]
    assert (row.status, row.error_code) == ("failed", "EXPRESSION_FAILED")
    assert len(driver.rows("SELECT 1 FROM dead_letters WHERE run_id = :id", id=run_id)) == 1
    assert_verified(driver, run_id)


def test_an_entry_step_is_decided_when_its_run_begins(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", condition="input.go"), StepSpec("b", "noop", ("a",)))
    assert driver.statuses(driver.trigger(input={"go": True})) == {"a": "queued", "b": "pending"}
    run_id = driver.trigger(input={"go": False})
    assert driver.statuses(run_id) == {"a": "skipped", "b": "queued"}
    assert_verified(driver, run_id)


def test_a_map_whose_condition_is_false_is_passed_over(driver: RunDriver) -> None:
    mapped = StepSpec("b", "noop", ("a",), map=MapSpec("${steps.a.rows}"), condition="len(steps.a.rows) > 1")
    driver.store_steps(A, mapped, C)
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"rows": [1]})
    assert driver.statuses(run_id) == {"a": "completed", "b": "skipped", "c": "queued"}
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"rows": [1, 2]})
    assert driver.statuses(run_id)["b"] == "waiting"


def test_a_run_of_steps_that_the_engine_decides_ends_when_it_begins(driver: RunDriver) -> None:
    sizes = choice("size", Case("input.n > 10", ("big",), "big"), Case(None, ("small",)), needs=("n",))
    driver.store_steps(
        transform("n", "${input.n}"),
        sizes,
        transform("big", {"is": "big ${steps.n}"}, ("size",)),
        transform("small", {"is": "small"}, ("size",)),
        transform("end", ["${steps.big.is}", "${steps.small.is}"], ("big", "small", "size")),
    )
    run_id = driver.trigger(input={"n": 11})
    assert driver.run(run_id).status == "completed"
    rows = driver.task_runs(run_id)
    assert [row.status for row in rows] == ["completed", "completed", "completed", "skipped", "completed"]
    assert (rows[1].output, rows[1].selected_next) == ("big", ["big", "end"])
    assert rows[4].output == ["big 11", None]
    assert {row.queue for row in rows} == {"-"}
    assert_verified(driver, run_id)


def test_a_value_in_storage_is_loaded_between_two_transactions(driver: RunDriver) -> None:
    driver.store_steps(A, StepSpec("b", "noop", ("a",), condition="len(steps.a.text) > 3"), C)
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"text": "x" * 50_000})
    assert driver.statuses(run_id)["b"] == "pending"
    driver.check(run_id, 2)
    assert driver.statuses(run_id)["b"] == "queued"


def test_a_tolerated_failure_is_passed_over_and_leaves_no_dead_letter(driver: RunDriver) -> None:
    driver.store_steps(A, StepSpec("b", "noop", ("a",), continue_on_error=True), C)
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    driver.finish(run_id, "b", failure=PERMANENT)
    assert driver.statuses(run_id) == {"a": "completed", "b": "failed", "c": "queued"}
    driver.finish(run_id, "c")
    assert driver.run(run_id).status == "completed"
    assert driver.rows("SELECT 1 FROM dead_letters WHERE run_id = :id", id=run_id) == []
    assert_verified(driver, run_id)
