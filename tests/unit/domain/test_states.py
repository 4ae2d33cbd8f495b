"""The two state machines."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.domain import states
from pipeweave.orchestrator.domain.states import RUN_MOVES, TASK_MOVES, RunStatus, TaskStatus
from pipeweave.spec.rules import FINAL


def test_every_status_has_its_moves() -> None:
    assert set(RUN_MOVES) == set(RunStatus)
    assert set(TASK_MOVES) == set(TaskStatus)


def test_nothing_leaves_a_final_status() -> None:
    assert {status.value for status in states.FINAL_TASK} == FINAL
    final_runs = {RunStatus.COMPLETED, RunStatus.PARTIAL, RunStatus.FAILED, RunStatus.CANCELLED}
    assert final_runs == states.FINAL_RUN
    assert all(status.is_final for status in states.FINAL_TASK | states.FINAL_RUN)


@pytest.mark.parametrize("moves", [RUN_MOVES, TASK_MOVES], ids=["run", "task run"])
def test_every_open_status_leads_to_an_end_and_can_be_cancelled(moves: dict[str, frozenset[str]]) -> None:
    for status, after in moves.items():
        assert status not in after
        if after:
            assert "cancelled" in {str(each) for each in after}


@pytest.mark.parametrize("moves", [RUN_MOVES, TASK_MOVES], ids=["run", "task run"])
def test_every_status_is_reached_from_pending(moves: dict[str, frozenset[str]]) -> None:
    reached: set[str] = set()
    stack = [next(each for each in moves if str(each) == "pending")]
    while stack:
        each = stack.pop()
        if each not in reached:
            reached.add(each)
            stack += moves[each]
    assert reached == set(moves)


@pytest.mark.parametrize("after", TaskStatus)
def test_the_guard_of_a_move_is_every_status_that_may_be_left(after: TaskStatus) -> None:
    assert set(states.task_before(after)) == {
        before.value for before in TaskStatus if after in TASK_MOVES[before]
    }


@pytest.mark.parametrize("after", RunStatus)
def test_the_guard_of_a_run_s_move_is_every_status_that_may_be_left(after: RunStatus) -> None:
    assert set(states.run_before(after)) == {
        before.value for before in RunStatus if after in RUN_MOVES[before]
    }


def test_only_what_failed_or_followed_a_failure_is_reopened_and_only_to_go_on() -> None:
    assert set(states.REOPEN_RUN) < states.FINAL_RUN
    assert RunStatus.CANCELLED not in states.REOPEN_RUN
    assert set().union(*states.REOPEN_RUN.values()) == {RunStatus.RUNNING}
    assert set(states.REOPEN_TASK) <= states.FINAL_TASK
    assert set().union(*states.REOPEN_TASK.values()) == {TaskStatus.PENDING, TaskStatus.WAITING}
    assert states.REOPEN_TASK[TaskStatus.COMPLETED] == {TaskStatus.WAITING}


def test_open_and_final_are_all_there_is() -> None:
    assert set(TaskStatus) == states.OPEN_TASK | states.FINAL_TASK
    assert not states.OPEN_TASK & states.FINAL_TASK
    assert states.LIVE_TASK < states.OPEN_TASK
