"""Whatever a dying process leaves undone, and whatever is repaired later, errors are taken care of once."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest
from support.child_runs import children, task_run
from support.forgetful import Forgetful, heal, look_at_all, work_on
from support.handled_runs import call, last_child, letters, rule, store_remedy
from support.run_driver import PERMANENT, RunDriver, finish_next_attempt, finish_task_run

from pipeweave.errors import Conflict
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.kept import outputs
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import Gather, MapSpec, StepSpec, engine_task
from pipeweave.spec.joins import SETTLED


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """Of a tenant of its own, with pipelines `remedy` and `clean` of one step, `cure`."""
    driver = RunDriver(database)
    store_remedy(driver)
    store_remedy(driver, "clean")
    return driver


def retry(driver: RunDriver, letter: Any) -> None:
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id)


def verified(driver: RunDriver, run_id: UUID) -> list[Any]:
    with verify.snapshot(driver.database) as tx:
        return verify.run(tx, run_id)


@pytest.mark.parametrize("seed", range(12))
def test_a_run_ends_though_half_of_what_should_follow_is_lost(driver: RunDriver, seed: int) -> None:
    chance = random.Random(seed)
    back = call("clean", {"of": "${steps.a}"})
    driver.store_steps(
        StepSpec("a", "noop", on_error=rule("remedy"), compensate=back),
        StepSpec("b", "noop", ("a",), compensate=back),
        StepSpec("each", "noop", ("a",), map=MapSpec([1, 2])),
        StepSpec("end", "noop", ("b", "each")),
        error_rules=(rule("remedy", condition="error.step != 'end'", handled=chance.random() < 0.7),),
        finally_call=call("clean", {"how": "${run.outcome}"}),
        failure_mode=chance.choice(["fail-fast", "continue"]),
    )
    kept, driver.database.react = driver.database.react, Forgetful(chance)
    try:
        root = driver.trigger()
        cancels = chance.random() < 0.4
        for _ in range(200):
            if driver.run(root).finished_at is not None:
                break
            if cancels and chance.random() < 0.2:
                cancels = False
                with driver.database.transaction() as tx:
                    triggering.cancel(tx, driver.tenant, root)
            elif not work_on(driver, chance, root, fails=0.3):
                look_at_all(driver, root)
                driver.check(root, 0)
        heal(driver, root)
    finally:
        driver.database.react = kept
    statuses = driver.statuses(root)
    ending = driver.run(root).ending
    assert ending["parts"][-1] == "finally"
    assert (driver.run(root).status == "completed") <= (set(statuses.values()) <= {"completed", "skipped"})


def test_a_step_whose_error_was_not_handled_runs_again_and_is_handled_again(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", on_error=rule("remedy")))
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    inner = last_child(driver, run_id)
    driver.finish(inner, "cure", failure=PERMANENT)
    [of_inner] = letters(driver, inner)
    with pytest.raises(Conflict, match="took care of the error of step a"):
        retry(driver, of_inner)
    [letter] = letters(driver, run_id)
    retry(driver, letter)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, run_id, 1, failure=PERMANENT)
    assert driver.statuses(run_id) == {"a": "waiting"}
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(run_id).status == "completed"
    assert verified(driver, run_id) == []


def test_an_item_is_not_retried_while_the_error_of_its_map_is_taken_care_of(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("each", "noop", map=MapSpec([1]), on_error=rule("remedy")))
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        finish_task_run(tx, run_id, 2, failure=PERMANENT)
    [letter] = letters(driver, run_id)
    with pytest.raises(Conflict, match="is being taken care of"):
        retry(driver, letter)


def test_a_map_whose_items_are_retried_after_its_error_was_handled_has_their_outputs(
    driver: RunDriver,
) -> None:
    driver.store_steps(
        StepSpec("each", "noop", map=MapSpec([1]), on_error=rule("remedy")),
        StepSpec("other", "noop"),
        failure_mode="continue",
    )
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        finish_task_run(tx, run_id, 3, failure=PERMANENT)
    driver.finish(last_child(driver, run_id), "cure", output="cured")
    driver.finish(run_id, "other", failure=PERMANENT)
    assert driver.run(run_id).status == "failed"
    [of_item, of_other] = letters(driver, run_id)
    retry(driver, of_item)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, run_id, 3, output="mended")
    driver.check(run_id, 1)
    row = task_run(driver, run_id, "each")
    assert (row.status, row.output, row.output_hash) == ("completed", None, None)
    retry(driver, of_other)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, run_id, 2)
    with driver.database.transaction() as tx:
        shown = outputs.of_run(tx, driver.tenant, driver.run(run_id), Loading(False))
    assert shown["output"] == {"each": ["mended"], "other": None}
    assert verified(driver, run_id) == []


def test_a_block_whose_error_was_not_handled_is_told_right_when_a_member_is_retried(
    driver: RunDriver,
) -> None:
    gather = Gather(("a", "b"))
    driver.store_steps(
        StepSpec("a", "noop"),
        StepSpec("b", "noop"),
        StepSpec(
            "all",
            engine_task(gather),
            ("a", "b"),
            decides=gather,
            join=SETTLED,
            on_error=rule("remedy"),
        ),
    )
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    driver.finish(run_id, "b")
    driver.finish(last_child(driver, run_id), "cure", failure=PERMANENT)
    assert driver.statuses(run_id)["all"] == "failed"
    retry(driver, letters(driver, run_id)[0])
    assert verified(driver, run_id) == []


def test_a_step_that_was_stopped_while_its_error_was_taken_care_of_runs_again(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", on_error=rule("remedy")), StepSpec("b", "noop"))
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    driver.finish(run_id, "b", failure=PERMANENT)
    [letter] = letters(driver, run_id)
    retry(driver, letter)
    a = task_run(driver, run_id, "a")
    assert (a.status, a.attempt, a.error_code) == ("queued", 2, None)
    assert verified(driver, run_id) == []


def test_a_run_that_goes_on_has_its_ending_again(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"), finally_call=call("clean", {"how": "${run.outcome}"}))
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    [letter] = letters(driver, run_id)
    with pytest.raises(Conflict, match="error_handling"):
        retry(driver, letter)
    driver.finish(last_child(driver, run_id), "cure")
    retry(driver, letter)
    assert (driver.run(run_id).status, driver.run(run_id).ending) == ("running", None)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, run_id, 1)
    assert [each.input["how"] for each in children(driver, run_id)] == ["failed", "completed"]
    driver.finish(last_child(driver, run_id), "cure")
    assert driver.run(run_id).status == "completed"
    assert verified(driver, run_id) == []


def test_a_part_of_an_ending_is_not_continued_by_itself(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop"), finally_call=call("clean"))
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=PERMANENT)
    inner = last_child(driver, run_id)
    driver.finish(inner, "cure", failure=PERMANENT)
    [letter] = letters(driver, inner)
    with pytest.raises(Conflict, match="was a part of the end of run"):
        retry(driver, letter)
