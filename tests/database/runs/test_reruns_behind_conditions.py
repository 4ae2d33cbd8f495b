"""Reruns of runs in which a condition was false: it stays false, and what is behind it is reused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.failed_runs import called, differences
from support.inline_worker import InlineWorker, failing
from support.run_driver import RunDriver

from pipeweave.errors import Conflict
from pipeweave.orchestrator.runs import admission, rerunning
from pipeweave.orchestrator.runs.rerunning import LATEST, CreatedRerun, Edited, Rerun
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepSpec

FIRST = StepSpec("first", "noop", params={})
GIFT = StepSpec("gift", "noop", ("first",), {}, condition="input.n > 5")
SHIP = StepSpec("ship", "noop", ("gift",), {"x": "${steps.gift ?? 0}"})
LAST = StepSpec("last", "noop", ("ship",), {})


@pytest.fixture
def worker(database: Database) -> InlineWorker:
    """Of a tenant with a pipeline of four steps, of which the second has a condition."""
    driver = RunDriver(database)
    driver.store_steps(FIRST, GIFT, SHIP, LAST)
    return InlineWorker(driver)


def ended(worker: InlineWorker, n: int = 1, *failing_steps: str) -> UUID:
    worker.fails = failing(*failing_steps)
    run_id = worker.driver.trigger(input={"n": n})
    worker.consume_all()
    worker.fails = {}
    return run_id


def rerun(worker: InlineWorker, run_id: UUID, step: str, **options: Any) -> CreatedRerun:
    driver, request = worker.driver, Rerun(run_id, step, **options)
    worker.calls.clear()
    return driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    )


def ran_again(worker: InlineWorker, run_id: UUID, step: str, **options: Any) -> CreatedRerun:
    made = rerun(worker, run_id, step, **options)
    worker.consume_all()
    assert worker.driver.run(made.id).status == "completed"
    assert differences(worker.driver, made.id) == []
    return made


@pytest.mark.parametrize("failing_steps", [(), ("last",)], ids=["completed", "failed"])
def test_what_is_behind_a_step_that_was_passed_over_is_reused(
    worker: InlineWorker, failing_steps: tuple[str, ...]
) -> None:
    driver = worker.driver
    before = ended(worker, 1, *failing_steps)
    assert driver.statuses(before)["gift"] == "skipped"
    made = ran_again(worker, before, "last")
    assert (called(worker), made.reused) == ({"last": 1}, ("first", "ship"))
    [gift] = [each for each in driver.task_runs(made.id) if each.step_id == "gift"]
    assert (gift.status, gift.error_code) == ("skipped", "CONDITION_FALSE")
    [skipped] = driver.events(made.id, "task_runs.skipped")
    assert skipped.data == {"ordinals": [[2, 2]], "errorCode": "CONDITION_FALSE", "cause": "condition"}
    # And again from the rerun.
    ran_again(worker, made.id, "last")
    assert called(worker) == {"last": 1}


def test_a_step_behind_one_that_was_passed_over_may_be_the_first(worker: InlineWorker) -> None:
    ran_again(worker, ended(worker), "ship")
    assert called(worker) == {"ship": 1, "last": 1}


def test_a_condition_of_the_first_step_stays_false_too(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store_steps(StepSpec("gift", "noop", condition="input.n > 5"), SHIP, LAST)
    ran_again(worker, ended(worker), "last")
    assert called(worker) == {"last": 1}


def test_the_step_itself_is_decided_anew(worker: InlineWorker) -> None:
    before = ended(worker)
    made = ran_again(worker, before, "gift")
    assert (called(worker), worker.driver.statuses(made.id)["gift"]) == ({"ship": 1, "last": 1}, "skipped")
    ran_again(worker, before, "gift", edited=Edited({"n": 9}))
    assert called(worker) == {"gift": 1, "ship": 1, "last": 1}


def test_a_run_says_that_another_input_decided_about_a_step(worker: InlineWorker) -> None:
    made = ran_again(worker, ended(worker), "last", edited=Edited({"n": 9}))
    assert (called(worker), sorted(made.edits.seen)) == ({"last": 1}, ["gift"])


def test_a_failure_that_is_tolerated_is_tried_again(worker: InlineWorker) -> None:
    driver = worker.driver
    weak = StepSpec("gift", "noop", ("first",), {}, continue_on_error=True)
    driver.store_steps(FIRST, weak, SHIP, LAST)
    before = ended(worker, 1, "gift")
    assert driver.run(before).status == "completed"
    ran_again(worker, before, "last")
    assert called(worker) == {"gift": 1, "ship": 1, "last": 1}


def test_another_version_must_have_the_same_condition(worker: InlineWorker) -> None:
    before = ended(worker)
    other = StepSpec("gift", "noop", ("first",), {}, condition="input.n > 6")
    worker.driver.store_steps(FIRST, other, SHIP, LAST)
    with pytest.raises(Conflict, match="has changed steps whose results would be reused: 'gift'"):
        rerun(worker, before, "last", version=LATEST)


def test_a_rerun_that_waits_for_a_run_slot_passes_the_step_over_too(worker: InlineWorker) -> None:
    driver = worker.driver
    before = ended(worker)
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, 1)
    blocking = driver.trigger(input={"n": 1})
    made = rerun(worker, before, "last")
    assert (driver.run(made.id).status, made.status) == ("pending", "pending")
    worker.consume_all()
    assert driver.run(blocking).status == driver.run(made.id).status == "completed"
    assert driver.statuses(made.id)["gift"] == "skipped"
    assert differences(driver, made.id) == []


def test_a_wide_join_behind_steps_that_were_passed_over_runs_once(worker: InlineWorker) -> None:
    driver = worker.driver
    wide = [StepSpec(f"b{each}", "noop", ("first",), {}, condition=f"input.n > {each}") for each in range(10)]
    driver.store_steps(FIRST, *wide, StepSpec("join", "noop", tuple(each.id for each in wide), {}))
    made = ran_again(worker, ended(worker, 4), "b2")
    assert called(worker) == {"b2": 1, "join": 1}
    assert driver.statuses(made.id)["b7"] == "skipped"
