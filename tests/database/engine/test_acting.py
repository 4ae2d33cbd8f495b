"""Choices, transforms and gathers: decided by the transaction that reaches them, healed after a crash."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.engine_steps import choice, gather, transform
from support.factories import a_task, register
from support.inline_worker import InlineWorker, failing
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, header

from pipeweave import ids
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.engine.acting import MAX_ACTS
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.runs.rerunning import Rerun
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import Case, FailIf, MapSpec, StepRetry, StepSpec

A = StepSpec("a", "noop")


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def by_step(driver: RunDriver, run_id: UUID) -> dict[str, Any]:
    return {row.step_id: row for row in driver.task_runs(run_id) if row.kind != "item"}


def letters(driver: RunDriver, run_id: UUID) -> list[Any]:
    return driver.rows(
        "SELECT * FROM dead_letters WHERE run_id = :id AND retried_at IS NULL ORDER BY id", id=run_id
    )


def assert_verified(driver: RunDriver, run_id: UUID) -> None:
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []


# --- choices and transforms -------------------------------------------------------------------------------


def test_a_choice_takes_the_first_true_case_and_what_is_in_no_branch(driver: RunDriver) -> None:
    branch = choice("size", Case("steps.a.n > 10", ("big",), "big"), Case(None, ("small",)), needs=("a",))
    after = [StepSpec(each, "noop", ("size",)) for each in ("big", "small", "always")]
    driver.store_steps(A, branch, *after)
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"n": 10})
    rows = by_step(driver, run_id)
    assert [rows[each].status for each in ("big", "small", "always")] == ["skipped", "queued", "queued"]
    assert (rows["size"].output, rows["size"].selected_next) == (1, ["small", "always"])
    assert rows["big"].error_code is None
    [event] = [each for each in driver.events(run_id, "task_run.completed") if "selectedNext" in each.data]
    assert event.data["selectedNext"] == ["small", "always"]
    assert_verified(driver, run_id)


def test_a_choice_without_a_true_case_lets_only_what_is_in_no_branch_run(driver: RunDriver) -> None:
    branch = choice("size", Case("input.n > 10", ("big",)), needs=("a",))
    driver.store_steps(A, branch, *(StepSpec(each, "noop", ("size",)) for each in ("big", "always")))
    run_id = driver.trigger(input={"n": 1})
    driver.finish(run_id, "a")
    rows = by_step(driver, run_id)
    assert (rows["big"].status, rows["always"].status, rows["size"].output) == ("skipped", "queued", None)


def test_a_transform_fails_with_the_code_that_it_names(driver: RunDriver) -> None:
    fails = FailIf("steps.a.left < 0", "OVERDRAWN", "${steps.a.left} is too little")
    driver.store_steps(A, transform("b", {"left": "${steps.a.left}"}, ("a",), fails))
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"left": -5})
    row = by_step(driver, run_id)["b"]
    assert (row.status, row.error_code, row.error["message"]) == ("failed", "OVERDRAWN", "-5 is too little")
    assert [each.kind for each in letters(driver, run_id)] == ["transform"]
    assert_verified(driver, run_id)


def test_a_transform_makes_no_more_than_a_row_keeps(driver: RunDriver) -> None:
    driver.store_steps(A, transform("b", ["${steps.a}", "${steps.a}"], ("a",)))
    run_id = driver.trigger()
    driver.finish(run_id, "a", output="x" * 20_000)
    assert by_step(driver, run_id)["b"].error_code == "RESULT_TOO_LARGE"


def test_the_retried_dead_letter_of_a_step_without_a_task_decides_it_again(driver: RunDriver) -> None:
    driver.store_steps(A, transform("b", "${steps.a.missing}", ("a",)), StepSpec("c", "noop", ("b",)))
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={})
    [letter] = letters(driver, run_id)
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id)
    row = by_step(driver, run_id)["b"]
    assert (row.status, row.attempt, row.error_code) == ("failed", 2, "INVALID_REFERENCE")
    assert len(letters(driver, run_id)) == 1
    assert_verified(driver, run_id)


# --- gathers ----------------------------------------------------------------------------------------------

BLOCK = (StepSpec("x", "noop", ("a",)), StepSpec("y", "noop", ("a",)), gather("both", ("x", "y")))


def test_a_gather_completes_with_the_outputs_of_its_members(driver: RunDriver) -> None:
    driver.store_steps(A, *BLOCK)
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    driver.finish(run_id, "x", output={"n": 1})
    driver.finish(run_id, "y", output=2)
    assert by_step(driver, run_id)["both"].output == {"x": {"n": 1}, "y": 2}
    assert driver.run(run_id).status == "completed"


def test_a_member_that_fails_ends_the_run_only_when_all_members_have_ended(driver: RunDriver) -> None:
    driver.store_steps(A, *BLOCK)
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    driver.finish(run_id, "x", failure=PERMANENT)
    assert driver.run(run_id).status == "running"
    driver.finish(run_id, "y")
    row = by_step(driver, run_id)["both"]
    assert (row.status, row.error_code) == ("failed", "PARALLEL_FAILED")
    assert row.error["details"]["failures"] == [{"code": "BOOM", "message": "it broke", "step": "x"}]
    run = driver.run(run_id)
    assert (run.status, run.error["stepId"]) == ("failed", "both")
    assert [each.step_id for each in letters(driver, run_id)] == ["x"]
    assert_verified(driver, run_id)


def test_the_retried_member_of_a_block_lets_its_gather_complete(driver: RunDriver) -> None:
    driver.store_steps(A, *BLOCK, StepSpec("after", "noop", ("both",)))
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    driver.finish(run_id, "x", failure=PERMANENT)
    driver.finish(run_id, "y")
    worker = InlineWorker(driver)
    [letter] = letters(driver, run_id)
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id)
    worker.consume_all()
    assert set(driver.statuses(run_id).values()) == {"completed"}
    assert driver.run(run_id).status == "completed"
    assert_verified(driver, run_id)


def test_a_gather_of_a_block_that_a_failure_before_it_kept_from_running_is_skipped(driver: RunDriver) -> None:
    driver.store_steps(A, *BLOCK, StepSpec("after", "noop", ("both",)), failure_mode="continue")
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    rows = by_step(driver, run_id)
    assert [rows[each].error_code for each in ("x", "both", "after")] == ["PREDECESSOR_FAILED"] * 3
    assert driver.run(run_id).status == "failed"
    assert_verified(driver, run_id)


def test_a_gather_whose_failure_is_tolerated_leaves_the_run_completed(driver: RunDriver) -> None:
    driver.store_steps(A, *BLOCK[:2], gather("both", ("x", "y"), continue_on_error=True))
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    driver.finish(run_id, "x", "y", failure=PERMANENT)
    assert driver.statuses(run_id)["both"] == "failed"
    assert driver.run(run_id).status == "completed"


def test_failed_items_of_a_map_that_is_tolerated_do_not_end_the_run(driver: RunDriver) -> None:
    driver.store_steps(
        StepSpec("m", "noop", map=MapSpec([1, 2, 3]), continue_on_error=True), StepSpec("b", "noop", ("m",))
    )
    worker = InlineWorker(driver, fails=failing(("m", 1)))
    run_id = driver.trigger()
    worker.consume_all()
    assert driver.statuses(run_id) == {"m": "failed", "b": "completed"}
    assert driver.run(run_id).status == "completed"
    assert letters(driver, run_id) == []


# --- wide joins -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fail-fast", "continue", "partial-merge"])
def test_a_wide_join_runs_after_predecessors_of_all_kinds(driver: RunDriver, mode: str) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop", a_task("limited", concurrency=2))
    before = (
        StepSpec("plain", "noop", ("a",)),
        StepSpec("limited", "limited", ("a",)),
        StepSpec("yes", "noop", ("a",), condition="true"),
        StepSpec("no", "noop", ("a",), condition="false"),
        StepSpec("tolerated", "noop", ("a",), continue_on_error=True),
        StepSpec("mapped", "noop", ("a",), map=MapSpec([1, 2])),
        StepSpec("empty", "noop", ("a",), map=MapSpec("${input.list}"), condition="input.list != null"),
        transform("made", 1, ("a",)),
        choice("chosen", Case("false", ("away",)), needs=("a",)),
        StepSpec("away", "noop", ("chosen",)),
    )
    needs = tuple(each.id for each in before)
    driver.store_steps(A, *before, StepSpec("join", "noop", needs), failure_mode=mode)
    worker = InlineWorker(driver, fails=failing("tolerated"))
    run_id = driver.trigger(input={"list": None})
    worker.consume_all()
    for _ in range(3):
        with driver.database.transaction() as tx:
            assert closed_joins(tx, {run_id: header(tx, run_id).plan}) == []
        if driver.run(run_id).status != "running":
            break
        worker.consume_all()
    statuses = driver.statuses(run_id)
    skipped = {each for each, status in statuses.items() if status == "skipped"}
    assert (skipped, statuses["tolerated"], statuses["join"]) == (
        {"no", "empty", "away"},
        "failed",
        "completed",
    )
    assert driver.run(run_id).status == "completed"
    assert_verified(driver, run_id)


# --- bounds and crashes -----------------------------------------------------------------------------------


def test_a_transaction_acts_on_a_bounded_number_of_steps_and_a_check_goes_on(driver: RunDriver) -> None:
    count = 2 * MAX_ACTS + 10
    chain = [transform(f"t{n}", n, (f"t{n - 1}",) if n else ("a",)) for n in range(count)]
    driver.store_steps(A, *chain)
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    for done in (MAX_ACTS, 2 * MAX_ACTS):
        assert list(driver.statuses(run_id).values()).count("completed") == 1 + done
        [check] = [each for each in driver.sent if isinstance(each, JoinCheck) and each.run_id == run_id]
        driver.sent.clear()
        driver.check(run_id, check.join)
    assert driver.run(run_id).status == "completed"


def test_a_pending_step_whose_check_was_lost_is_found_as_a_closed_join(driver: RunDriver) -> None:
    chain = [transform(f"t{n}", n, (f"t{n - 1}",) if n else ("a",)) for n in range(MAX_ACTS + 5)]
    driver.store_steps(A, *chain)
    run_id = driver.trigger()
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        [check] = closed_joins(tx, {run_id: header(tx, run_id).plan})
    assert ids.task_run_id(run_id, check.join) == by_step(driver, run_id)[f"t{MAX_ACTS}"].id
    driver.check(run_id, check.join)
    assert driver.run(run_id).status == "completed"


def test_a_value_in_storage_is_loaded_between_two_transactions(driver: RunDriver) -> None:
    driver.store_steps(A, transform("b", "${steps.a.n}", ("a",)))
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"n": 1, "text": "x" * 50_000})
    assert driver.statuses(run_id)["b"] == "pending"
    driver.check(run_id, 2)
    assert by_step(driver, run_id)["b"].output == 1


# --- retries of a step ------------------------------------------------------------------------------------


def test_a_step_s_own_retries_replace_those_of_its_task(driver: RunDriver) -> None:
    retry = StepRetry(attempts=2, delay_ms=60_000, max_delay_ms=90_000, backoff="fixed", retry_on=("WEAK",))
    driver.store_steps(StepSpec("a", "noop", retry=retry), StepSpec("b", "noop"))
    run_id = driver.trigger()
    assert by_step(driver, run_id)["a"].max_attempts == 2
    driver.finish(run_id, "a", failure=TRANSIENT)
    row = by_step(driver, run_id)["a"]
    assert row.status == "pending"
    [event] = driver.events(run_id, "task_run.retrying")
    assert 55 < (row.due_at - event.at).total_seconds() <= 61


def test_a_retried_dead_letter_has_as_many_attempts_as_the_step_says(driver: RunDriver) -> None:
    retry = StepRetry(attempts=4, retry_on=("WEAK",))
    driver.store_steps(StepSpec("a", "noop", retry=retry))
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    [letter] = letters(driver, run_id)
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id)
    row = by_step(driver, run_id)["a"]
    assert (row.attempt, row.max_attempts) == (2, 5)


# --- reruns -----------------------------------------------------------------------------------------------


def test_a_rerun_passes_the_same_step_over_again(driver: RunDriver) -> None:
    driver.store_steps(
        A, StepSpec("b", "noop", ("a",), condition="steps.a.n > 3"), StepSpec("c", "noop", ("b",))
    )
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"n": 3})
    driver.finish(run_id, "c")
    again = driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, Rerun(run_id, "c")), is_one=False
    )
    assert again.reused == ("a",)
    assert driver.statuses(again.id) == {"a": "completed", "b": "skipped", "c": "queued"}


def test_a_rerun_reuses_choices_and_transforms(driver: RunDriver) -> None:
    branch = choice("size", Case("steps.made > 10", ("big",)), Case(None, ("small",)), needs=("made",))
    after = (StepSpec("big", "noop", ("size",)), StepSpec("small", "noop", ("size",)))
    driver.store_steps(A, transform("made", "${steps.a.n}", ("a",)), branch, *after)
    run_id = driver.trigger()
    driver.finish(run_id, "a", output={"n": 11})
    driver.finish(run_id, "big")
    again = driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, Rerun(run_id, "big")), is_one=False
    )
    assert set(again.reused) == {"a", "made", "size"}
    assert driver.statuses(again.id)["small"] == "skipped"
    driver.finish(again.id, "big")
    assert driver.run(again.id).status == "completed"
    assert_verified(driver, again.id)
