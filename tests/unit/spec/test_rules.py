"""When a step runs or is skipped, and how a run ends."""

from __future__ import annotations

import pytest

from pipeweave.errors import InvalidNextTasks
from pipeweave.orchestrator.domain import states
from pipeweave.spec.rules import (
    FAILED,
    FAILURE_MODES,
    FINAL,
    Decision,
    Predecessor,
    decide_step,
    final_run_status,
    follows_failure,
    select_next,
)

DONE, FAIL, SKIPPED, RUNNING = (Predecessor(each) for each in ("completed", "failed", "skipped", "running"))
ELSEWHERE = Predecessor("completed", frozenset({"other"}))
POISONED = Predecessor("skipped", follows_failure=True)


def decide(mode: str, *before: Predecessor) -> Decision:
    return decide_step(mode, {str(place): each for place, each in enumerate(before)}, "me")


def test_the_final_statuses_are_those_of_the_state_machine() -> None:
    assert {status.value for status in states.FINAL_TASK} == FINAL
    assert FINAL > FAILED


@pytest.mark.parametrize("mode", FAILURE_MODES)
def test_decisions_that_are_equal_in_all_failure_modes(mode: str) -> None:
    assert decide(mode) is Decision.RUN
    assert decide(mode, DONE, DONE) is Decision.RUN
    assert decide(mode, DONE, RUNNING) is Decision.WAIT
    assert decide(mode, FAIL, RUNNING) is Decision.WAIT
    assert decide(mode, SKIPPED, ELSEWHERE) is Decision.SKIP
    assert decide(mode, SKIPPED, DONE) is Decision.RUN
    assert decide(mode, FAIL) is Decision.SKIP
    assert decide(mode, POISONED) is Decision.SKIP
    assert decide(mode, Predecessor("completed", ["me"])) is Decision.RUN
    assert decide(mode, Predecessor("completed", [])) is Decision.SKIP


def test_a_join_with_a_failed_predecessor_is_skipped_unless_it_may_merge_what_there_is() -> None:
    for bad in (FAIL, POISONED, Predecessor("timeout"), Predecessor("cancelled")):
        assert decide("continue", DONE, bad) is Decision.SKIP
        assert decide("partial-merge", DONE, bad) is Decision.RUN
        assert decide("partial-merge", ELSEWHERE, bad) is Decision.SKIP


def test_skipping_after_a_failure_is_passed_on_but_skipping_by_choice_is_not() -> None:
    assert follows_failure([DONE, FAIL])
    assert follows_failure([POISONED])
    assert not follows_failure([SKIPPED, ELSEWHERE])


@pytest.mark.parametrize(
    ("statuses", "fail_fast", "continued", "merged"),
    [
        (["completed", "skipped"], "completed", "completed", "completed"),
        (["completed", "failed"], "failed", "failed", "partial"),
        (["timeout"], "failed", "failed", "partial"),
        ([], "completed", "completed", "completed"),
    ],
)
def test_how_a_run_ends(statuses: list[str], fail_fast: str, continued: str, merged: str) -> None:
    assert [final_run_status(mode, statuses) for mode in FAILURE_MODES] == [fail_fast, continued, merged]


def test_an_open_task_run_keeps_a_run_from_ending_unless_it_fails_fast() -> None:
    with pytest.raises(ValueError, match="running"):
        final_run_status("continue", ["failed", "running"])
    assert final_run_status("fail-fast", ["failed", "running"]) == "failed"


def test_choosing_successors() -> None:
    assert select_next(None, ["a"], step_id="s") is None
    assert select_next([], ["a"], step_id="s") == ()
    assert select_next(["b", "a", "b"], ["a", "b"], step_id="s") == ("b", "a")
    with pytest.raises(InvalidNextTasks) as refused:
        select_next(["a", "reprot"], ["report", "a"], step_id="s")
    assert refused.value.detail == (
        "run_next names 'reprot', but no such step follows step 's': its successors are a, report"
    )
    assert refused.value.hint == "did you mean 'report'?"
    with pytest.raises(InvalidNextTasks, match="it is an end step"):
        select_next(["x"], [], step_id="s")


@pytest.mark.parametrize("run_next", [["a"], []])
def test_an_item_of_a_map_cannot_choose_successors(run_next: list[str]) -> None:
    assert select_next(None, ["a"], step_id="each", is_item=True) is None
    with pytest.raises(InvalidNextTasks, match="items of a map cannot choose") as refused:
        select_next(run_next, ["a"], step_id="each", is_item=True)
    assert "map 'each'" in refused.value.detail
    assert "a step after the map" in str(refused.value.hint)
