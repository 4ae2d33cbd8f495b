"""A step runs a pipeline as a run of its own, its child, and ends with it."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest
from support.child_runs import child, children, only_child, task_run
from support.engine_steps import transform
from support.run_driver import PERMANENT, RunDriver, claim, finish_step, settle
from support.stored_values import VALUES
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.runs import admission, pausing, rerunning, triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits import left_children
from pipeweave.orchestrator.waits.loading import look
from pipeweave.spec import SignalWait, StepRetry, StepSpec, engine_task


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """Of a tenant of its own, with a pipeline `inner` of one step."""
    driver = RunDriver(database)
    driver.store_steps(StepSpec("work", "noop", params={"amount": "${input.amount}"}), id="inner")
    return driver


def outer(driver: RunDriver, **rules: object) -> None:
    """Store a pipeline that runs `inner` between two of its steps."""
    params = rules.pop("params", {"amount": "${steps.start.amount}"})
    driver.store_steps(
        StepSpec("start", "noop"),
        child("call", "inner", ("start",), params=params, **rules),
        StepSpec("end", "noop", ("call",)),
    )


def test_a_child_has_the_params_of_its_step_and_its_output_is_that_of_the_step(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    assert driver.statuses(run_id) == {"start": "completed", "call": "waiting", "end": "pending"}
    [inner] = children(driver, run_id)
    assert (inner.pipeline_id, inner.input, inner.depth, inner.root_run_id) == (
        "inner",
        {"amount": 7},
        1,
        run_id,
    )
    driver.finish(inner.id, "work", output={"paid": True})
    assert driver.run(inner.id).status == "completed"
    assert driver.statuses(run_id)["call"] == "completed"
    assert task_run(driver, run_id, "call").output == {"paid": True}
    driver.finish(run_id, "end")
    assert driver.run(run_id).status == "completed"
    assert driver.rows("SELECT 1 FROM waits WHERE run_id = :id", id=run_id) == []


def test_a_failed_child_fails_its_step_without_a_dead_letter_of_its_own(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    inner = only_child(driver, run_id)
    driver.finish(inner, "work", failure=PERMANENT)
    call = task_run(driver, run_id, "call")
    assert (call.status, call.error_code) == ("failed", "CHILD_FAILED")
    assert call.error["details"]["step"] == "work"
    assert driver.run(run_id).status == "failed"
    letters = "SELECT run_id FROM dead_letters WHERE run_id = ANY(:ids)"
    assert [row.run_id for row in driver.rows(letters, ids=[run_id, inner])] == [inner]


def test_a_child_that_is_cancelled_fails_its_step(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    inner = only_child(driver, run_id)
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, inner)
    assert task_run(driver, run_id, "call").error_code == "CHILD_CANCELLED"


def test_a_cancel_goes_down_the_tree(driver: RunDriver) -> None:
    driver.store_steps(child("down", "inner"), id="middle")
    driver.store_steps(child("call", "middle"))
    run_id = driver.trigger()
    middle = only_child(driver, run_id)
    inner = only_child(driver, middle)
    assert driver.run(inner).depth == 2
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    assert [driver.run(each).status for each in (run_id, middle, inner)] == ["cancelled"] * 3
    assert driver.run(inner).error_code == "PARENT_ENDED"


def test_a_child_whose_parent_ended_while_nobody_told_it_is_cancelled_by_the_chore(driver: RunDriver) -> None:
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    inner = only_child(driver, run_id)
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
        tx._after.clear()
    assert driver.run(inner).status == "running"
    while driver.run(inner).status == "running":
        left_children.check(driver.database)
    assert driver.run(inner).error_code == "PARENT_ENDED"


def test_a_child_that_nobody_started_or_told_of_is_healed_by_what_is_due(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        finish_step(tx, run_id, "start", output=VALUES.keep({"amount": 7}))
        tx._after.clear()
    assert children(driver, run_id) == []
    key = (run_id, task_run(driver, run_id, "call").id)
    assert look(driver.database, VALUES, [key]) == 0
    inner = only_child(driver, run_id)
    with driver.database.transaction() as tx:
        finish_step(tx, inner, "work", output=VALUES.keep(3))
        tx._after.clear()
    assert driver.statuses(run_id)["call"] == "waiting"
    assert look(driver.database, VALUES, [key]) == 1
    assert task_run(driver, run_id, "call").output == 3


def test_a_child_of_engine_steps_alone_ends_at_once(driver: RunDriver) -> None:
    driver.store_steps(transform("sum", {"total": "${input.a + input.b}"}), id="pure")
    driver.store_steps(child("call", "pure", params={"a": 1, "b": 2}))
    run_id = driver.trigger()
    assert driver.run(run_id).status == "completed"
    assert task_run(driver, run_id, "call").output == {"total": 3}


def test_an_unknown_pipeline_fails_the_step(driver: RunDriver) -> None:
    driver.store_steps(child("call", "gone"))
    run_id = driver.trigger()
    assert task_run(driver, run_id, "call").error_code == "NOT_FOUND"
    assert driver.run(run_id).status == "failed"


def test_pipelines_that_run_each_other_without_end_are_stopped_at_a_depth(driver: RunDriver) -> None:
    driver.store_steps(child("again", "endless"), id="endless")
    run_id = driver.trigger("endless")
    depths = "SELECT max(depth) AS most FROM runs WHERE root_run_id = :id"
    assert driver.rows(depths, id=run_id)[0].most == 10
    assert driver.run(run_id).status == "failed"


@pytest.mark.parametrize("retry_on", [None, ("CHILD_FAILED",), ("STEP_FAILED",)])
def test_a_step_that_is_retried_runs_its_pipeline_again(
    driver: RunDriver, retry_on: tuple[str, ...] | None
) -> None:
    outer(driver, retry=StepRetry(attempts=2, delay_ms=1, backoff="fixed", retry_on=retry_on))
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    driver.finish(only_child(driver, run_id), "work", failure=PERMANENT)
    key = (run_id, task_run(driver, run_id, "call").id)
    while len(children(driver, run_id)) < 2:
        look(driver.database, VALUES, [key])
    first, second = children(driver, run_id)
    assert (first.status, second.status) == ("failed", "running")
    driver.finish(second.id, "work", output=1)
    assert task_run(driver, run_id, "call").output == 1


def test_a_step_that_runs_its_pipeline_again_has_the_lines_of_a_retry(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pipeweave.orchestrator")
    outer(driver, retry=StepRetry(attempts=3, delay_ms=1, backoff="fixed"))
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    first = only_child(driver, run_id)
    driver.finish(first, "work", failure=PERMANENT)
    key = (run_id, task_run(driver, run_id, "call").id)
    while len(children(driver, run_id)) < 2:
        look(driver.database, VALUES, [key])
    driver.finish(children(driver, run_id)[1].id, "work", output=1)
    told = [
        (each.message, each.attempt, each.max_attempts)
        for each in caplog.records
        if getattr(each, "step_id", None) == "call"
    ]
    assert told == [("task_run.retrying", 1, 3), ("task_run.retry_succeeded", 2, 3)]
    [retrying] = [vars(each) for each in caplog.records if each.message == "task_run.retrying"]
    assert (retrying["error_code"], retrying["child_run_id"]) == ("CHILD_FAILED", ids.show(ids.RUN, first))


def test_a_large_output_stays_where_it_is_and_large_params_are_stored(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    text = "x" * 100_000
    driver.finish(run_id, "start", output={"amount": text})
    key = (run_id, task_run(driver, run_id, "call").id)
    while not children(driver, run_id):
        look(driver.database, VALUES, [key])
    inner = only_child(driver, run_id)
    assert driver.run(inner).input_path is not None
    driver.finish(inner, "work", output={"text": text})
    call, work = task_run(driver, run_id, "call"), task_run(driver, inner, "work")
    assert call.output_path == work.output_path is not None


def test_what_is_stored_of_a_tree_can_be_verified(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    inner = only_child(driver, run_id)
    driver.finish(inner, "work", output=1)
    driver.finish(run_id, "end")
    with verify.snapshot(driver.database) as tx:
        assert [verify.run(tx, each) for each in (run_id, inner)] == [[], []]


def test_a_child_runs_the_version_that_its_step_names(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("other", "noop"), id="inner")
    driver.store_steps(child("new", "inner"), child("old", "inner", version=1))
    run_id = driver.trigger()
    assert sorted(each.pipeline_version for each in children(driver, run_id)) == [1, 2]


def test_a_parent_is_quiet_while_its_child_is(driver: RunDriver) -> None:
    wait = SignalWait(("paid",))
    driver.store_steps(StepSpec("wait", engine_task(wait), decides=wait), id="waiter")
    driver.store_steps(child("call", "waiter"))
    run_id = driver.trigger()
    assert driver.run(only_child(driver, run_id)).quiet_since is not None
    assert driver.run(run_id).quiet_since is not None
    runs = WaitingRuns(driver)
    runs.send(run_id, "paid", 3)
    assert driver.run(run_id).status == "completed"
    assert task_run(driver, run_id, "call").output["payload"] == 3


def test_a_parent_works_while_its_child_does(driver: RunDriver) -> None:
    driver.store_steps(child("call", "inner", params={"amount": 1}))
    run_id = driver.trigger()
    look(driver.database, VALUES, [(run_id, task_run(driver, run_id, "call").id)])
    assert driver.run(run_id).quiet_since is None


def test_a_child_takes_no_run_slot(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, 1)
    driver.store_steps(child("call", "inner", params={"amount": 1}))
    run_id = driver.trigger()
    inner = only_child(driver, run_id)
    assert driver.run(inner).status == "running"
    second = driver.trigger()
    assert driver.run(second).status == "pending"
    driver.finish(inner, "work")
    assert [driver.run(each).status for each in (run_id, second)] == ["completed", "running"]


def test_a_pause_goes_down_the_tree_and_so_does_its_end(driver: RunDriver) -> None:
    driver.store_steps(child("down", "inner"), id="middle")
    driver.store_steps(child("call", "middle"))
    run_id = driver.trigger()
    middle = only_child(driver, run_id)
    tree = [run_id, middle, only_child(driver, middle)]
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    assert [driver.run(each).status for each in tree] == ["paused"] * 3
    with driver.database.transaction() as tx:
        pausing.resume(tx, driver.tenant, run_id)
    assert [driver.run(each).status for each in tree] == ["running"] * 3


def test_a_paused_run_starts_no_child_until_it_is_resumed(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        claimed = claim(tx, run_id, 1)
    assert claimed is not None
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    with driver.database.transaction() as tx:
        settle(tx, claimed, output={"amount": 7})
    key = (run_id, task_run(driver, run_id, "call").id)
    look(driver.database, VALUES, [key])
    assert children(driver, run_id) == []
    with driver.database.transaction() as tx:
        pausing.resume(tx, driver.tenant, run_id)
    look(driver.database, VALUES, [key])
    assert len(children(driver, run_id)) == 1


def test_a_child_that_nobody_told_of_the_end_of_a_pause_is_resumed_by_the_chore(driver: RunDriver) -> None:
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    with driver.database.transaction() as tx:
        pausing.resume(tx, driver.tenant, run_id)
        tx._after.clear()
    inner = only_child(driver, run_id)
    assert driver.run(inner).status == "paused"
    while driver.run(inner).status == "paused":
        left_children.check(driver.database)


def rerun(driver: RunDriver, run_id: UUID, step: str | None = None) -> UUID:
    request = rerunning.Rerun(run_id, from_step=step)
    return driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    ).id


def test_a_rerun_from_a_later_step_keeps_the_output_of_a_child_and_starts_none(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    driver.finish(only_child(driver, run_id), "work", output=3)
    driver.finish(run_id, "end")
    again = rerun(driver, run_id, "end")
    assert driver.statuses(again) == {"start": "completed", "call": "completed", "end": "queued"}
    assert task_run(driver, again, "call").output == 3
    assert children(driver, again) == []


def test_a_rerun_from_the_step_of_a_child_starts_another_one(driver: RunDriver) -> None:
    outer(driver)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output={"amount": 7})
    driver.finish(only_child(driver, run_id), "work", output=3)
    driver.finish(run_id, "end")
    [inner] = children(driver, rerun(driver, run_id, "call"))
    assert inner.input == {"amount": 7}


def test_a_rerun_of_a_child_is_a_run_without_a_parent(driver: RunDriver) -> None:
    driver.store_steps(child("call", "inner", params={"amount": 1}))
    inner = only_child(driver, driver.trigger())
    driver.finish(inner, "work")
    again = driver.run(rerun(driver, inner))
    assert (again.input, again.parent_run_id) == ({"amount": 1}, None)
