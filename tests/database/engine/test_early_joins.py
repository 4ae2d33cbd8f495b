"""Steps that run before all their predecessors are final, and runs that end only after all of them are."""

from __future__ import annotations

import functools

import pytest
from support.concurrency import call_concurrently
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, RunDriver, header

from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.runs.rerunning import Rerun
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import ALL_DONE, ANY, JoinRule, StepSpec

BEFORE = tuple(StepSpec(each, "noop") for each in "abc")


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def test_the_first_of_several_steps_lets_the_next_one_run_and_the_run_ends_after_the_last(
    driver: RunDriver,
) -> None:
    driver.store_steps(*BEFORE, StepSpec("first", "noop", ("a", "b", "c"), join=ANY))
    run_id = driver.trigger()
    driver.finish(run_id, "b")
    assert driver.statuses(run_id)["first"] == "queued"
    driver.finish(run_id, "first", "a")
    assert driver.run(run_id).status == "running"
    driver.finish(run_id, "c")
    assert driver.run(run_id).status == "completed"
    assert driver.released(run_id).count(4) == 1


@pytest.mark.parametrize("at_least", [1, 2, 3])
def test_steps_that_end_at_once_let_their_early_join_run_exactly_once(
    driver: RunDriver, at_least: int
) -> None:
    driver.store_steps(*BEFORE, StepSpec("next", "noop", ("a", "b", "c"), join=JoinRule(at_least)))
    for _ in range(8):
        run_id = driver.trigger()
        driver.sent.clear()
        threads = call_concurrently(*(functools.partial(driver.finish, run_id, each) for each in "abc"))
        assert [each.error for each in threads] == [None] * 3
        assert driver.released(run_id) == [4]
        driver.finish(run_id, "next")
        assert driver.run(run_id).status == "completed"


def test_too_few_taken_edges_skip_an_early_join_once_all_is_final(driver: RunDriver) -> None:
    driver.store_steps(
        *BEFORE, StepSpec("two", "noop", ("a", "b", "c"), join=JoinRule(2)), failure_mode="continue"
    )
    run_id = driver.trigger()
    driver.finish(run_id, "a", "b", failure=PERMANENT)
    assert driver.statuses(run_id)["two"] == "pending"
    driver.finish(run_id, "c")
    row = driver.task_runs(run_id)[3]
    assert (row.status, row.error_code) == ("skipped", "PREDECESSOR_FAILED")
    assert driver.run(run_id).status == "failed"


def test_a_step_that_takes_failures_runs_after_them(driver: RunDriver) -> None:
    driver.store_steps(
        *BEFORE, StepSpec("report", "noop", ("a", "b", "c"), join=ALL_DONE), failure_mode="continue"
    )
    run_id = driver.trigger()
    driver.finish(run_id, "a", "b", failure=PERMANENT)
    assert driver.statuses(run_id)["report"] == "pending"
    driver.finish(run_id, "c")
    driver.finish(run_id, "report")
    assert driver.run(run_id).status == "failed"


@pytest.mark.parametrize("before", [("a",), ("a", "b")])
def test_a_retried_step_ends_its_run_though_what_follows_it_took_the_failure(
    driver: RunDriver, before: tuple[str, ...]
) -> None:
    report = StepSpec("report", "noop", before, join=ALL_DONE)
    driver.store_steps(*BEFORE[: len(before)], report, failure_mode="continue")
    run_id = driver.trigger()
    driver.finish(run_id, *before, failure=PERMANENT)
    driver.finish(run_id, "report")
    worker = InlineWorker(driver)
    letters = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id", id=run_id)
    with driver.database.transaction() as tx:
        for each in letters:
            dead_letters.retry(tx, driver.tenant, each.id)
    worker.consume_all()
    assert driver.run(run_id).status == "completed"


def test_a_rerun_goes_on_by_a_reused_step_before_an_early_join(driver: RunDriver) -> None:
    driver.store_steps(*BEFORE, StepSpec("first", "noop", ("a", "b", "c"), join=ANY))
    run_id = driver.trigger()
    driver.finish(run_id, "a", "first", "b", "c")
    again = driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, Rerun(run_id, "c")), is_one=False
    )
    assert set(again.reused) == {"a", "b"}
    assert driver.statuses(again.id)["first"] == "queued"
    driver.finish(again.id, "c", "first")
    assert driver.run(again.id).status == "completed"


def test_an_early_join_that_nobody_has_decided_is_found_at_the_latest_when_all_is_final(
    driver: RunDriver,
) -> None:
    driver.store_steps(*BEFORE, StepSpec("first", "noop", ("a", "b", "c"), join=ANY))
    run_id = driver.trigger()
    driver.rows(
        "UPDATE task_runs SET status = 'completed', finished_at = now()"
        " WHERE run_id = :id AND step_id <> 'first' RETURNING 1",
        id=run_id,
    )
    with driver.database.transaction() as tx:
        [check] = closed_joins(tx, {run_id: header(tx, run_id).plan})
    driver.check(run_id, check.join)
    assert driver.statuses(run_id)["first"] == "queued"
