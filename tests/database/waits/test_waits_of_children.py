"""What waits in a child run: reports and votes reach it, also when who took them died right after."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, only_child, task_run
from support.suspended_runs import SuspendedRuns
from support.waiting_runs import WaitingRuns

from pipeweave import Suspend
from pipeweave.errors import CallbackTaken
from pipeweave.orchestrator.waits import approvals
from pipeweave.orchestrator.waits.approvals import Vote
from pipeweave.spec import StepSpec, engine_task
from pipeweave.spec.wait_steps import Approval


@pytest.mark.parametrize("levels", [1, 2])
def test_the_report_on_a_suspended_call_in_a_child_run_ends_it(suspended: SuspendedRuns, levels: int) -> None:
    driver = suspended.driver
    driver.store_steps(StepSpec("ask", "noop"), id="level-0")
    for level in range(levels):
        driver.store_steps(child("call", f"level-{level}"), id=f"level-{level + 1}")
    run_id = driver.trigger(f"level-{levels}")
    inner = run_id
    for _ in range(levels):
        inner = only_child(driver, inner)
    suspended.suspend(suspended.claim(inner), Suspend.callback())
    assert suspended.report(inner, {"status": "completed", "result": 7})
    assert driver.run(run_id).status == "completed"
    assert task_run(driver, run_id, "call").output == 7
    assert not suspended.report(inner, {"status": "completed", "result": 7})
    with pytest.raises(CallbackTaken):
        suspended.report(inner, {"status": "completed", "result": 8})


def test_a_report_that_comes_before_its_wait_in_a_child_run_is_kept(suspended: SuspendedRuns) -> None:
    driver = suspended.driver
    driver.store_steps(StepSpec("ask", "noop"), id="inner")
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    inner = only_child(driver, run_id)
    call = suspended.claim(inner)
    assert suspended.report(inner, 7)
    suspended.suspend(call)
    assert driver.run(run_id).status == "completed"


def test_a_report_whose_taker_died_leaves_the_wait_in_the_child_due(suspended: SuspendedRuns) -> None:
    driver = suspended.driver
    driver.store_steps(StepSpec("ask", "noop"), id="inner")
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    inner = only_child(driver, run_id)
    suspended.suspend(suspended.claim(inner))
    suspended.report(inner, 7, look=False)
    assert is_due(suspended.waits(inner))
    assert suspended.look(inner) == 1
    assert driver.run(run_id).status == "completed"


def test_a_vote_whose_taker_died_leaves_the_wait_in_the_child_due(runs: WaitingRuns) -> None:
    """Before, nobody looked at it again until its time was over, and the vote came too late."""
    driver, approval = runs.driver, Approval("Ship?")
    driver.store_steps(StepSpec("ok", engine_task(approval), decides=approval), id="inner")
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    inner = only_child(driver, run_id)
    assert not is_due(runs.waits(inner))
    vote(runs, inner)
    assert is_due(runs.waits(inner))
    assert runs.look(inner, "ok") == 1
    assert driver.run(run_id).status == "completed"


def vote(runs: WaitingRuns, run_id: UUID) -> None:
    """Vote yes, and die after the commit."""
    with runs.driver.database.transaction() as tx:
        approvals.vote(tx, runs.driver.tenant, runs.task_run(run_id, "ok"), Vote("ann", (), True))
        tx._after.clear()


def is_due(waits: list[Any]) -> bool:
    """Whether the only wait is looked at next."""
    [wait] = waits
    due: datetime = wait.due_at
    return due <= datetime.now(due.tzinfo)
