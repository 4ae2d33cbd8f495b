"""What the end of a predecessor means to the steps behind it: the tables of decision 0070."""

from __future__ import annotations

import pytest

from pipeweave.spec import ALL, ALL_DONE, ANY, Decision, JoinRule, Predecessor
from pipeweave.spec.joins import SETTLED
from pipeweave.spec.rules import CONTINUE, FAILURE_MODES, PARTIAL_MERGE, decide_step, is_taken

RUN, SKIP, WAIT = Decision.RUN, Decision.SKIP, Decision.WAIT
TWO = JoinRule(at_least=2)

TAKEN = Predecessor("completed")
CHOSEN = Predecessor("completed", frozenset({"me"}))
ELSEWHERE = Predecessor("completed", frozenset({"other"}))
NOT_CHOSEN = Predecessor("skipped")
PASSED_OVER = Predecessor("skipped", is_passed_over=True)
TOLERATED = Predecessor("failed", is_passed_over=True)
FAILED = Predecessor("failed")
AFTER_FAILURE = Predecessor("skipped", follows_failure=True)
OPEN = Predecessor("running")


@pytest.mark.parametrize(
    ("predecessor", "taken", "failure"),
    [
        (TAKEN, True, False),
        (CHOSEN, True, False),
        (ELSEWHERE, False, False),
        (NOT_CHOSEN, False, False),
        (PASSED_OVER, True, False),
        (TOLERATED, True, False),
        (Predecessor("timeout", is_passed_over=True), True, False),
        (FAILED, False, True),
        (Predecessor("timeout"), False, True),
        (Predecessor("cancelled"), False, True),
        (AFTER_FAILURE, False, True),
    ],
)
def test_an_edge_is_taken_or_counts_as_a_failure(
    predecessor: Predecessor, taken: bool, failure: bool
) -> None:
    assert is_taken(predecessor, "me") is taken
    assert predecessor.is_failure is failure


@pytest.mark.parametrize(
    ("predecessors", "all_", "all_done", "any_", "two"),
    [
        ((TAKEN, OPEN), WAIT, WAIT, RUN, WAIT),
        ((TAKEN, PASSED_OVER, OPEN), WAIT, WAIT, RUN, RUN),
        ((ELSEWHERE, OPEN), WAIT, WAIT, WAIT, WAIT),
        ((FAILED, OPEN), WAIT, WAIT, WAIT, WAIT),
        ((TAKEN, TAKEN), RUN, RUN, RUN, RUN),
        ((TAKEN, NOT_CHOSEN), RUN, RUN, RUN, SKIP),
        ((PASSED_OVER, ELSEWHERE), RUN, RUN, RUN, SKIP),
        ((TOLERATED,), RUN, RUN, RUN, SKIP),
        ((ELSEWHERE, NOT_CHOSEN), SKIP, RUN, SKIP, SKIP),
        ((FAILED, NOT_CHOSEN), SKIP, RUN, SKIP, SKIP),
        ((TAKEN, TAKEN, FAILED), SKIP, RUN, RUN, RUN),
        ((TAKEN, AFTER_FAILURE), SKIP, RUN, RUN, SKIP),
    ],
)
def test_a_join_rule_says_when_a_step_runs(
    predecessors: tuple[Predecessor, ...],
    all_: Decision,
    all_done: Decision,
    any_: Decision,
    two: Decision,
) -> None:
    before = {str(place): each for place, each in enumerate(predecessors)}
    decided = [decide_step(CONTINUE, before, "me", join) for join in (ALL, ALL_DONE, ANY, TWO)]
    assert decided == [all_, all_done, any_, two]


def test_under_partial_merge_a_step_runs_with_what_there_is() -> None:
    assert decide_step(PARTIAL_MERGE, {"a": TAKEN, "b": FAILED}, "me") is RUN
    assert decide_step(PARTIAL_MERGE, {"a": NOT_CHOSEN, "b": FAILED}, "me") is SKIP


@pytest.mark.parametrize("mode", FAILURE_MODES)
def test_a_gather_is_skipped_only_if_nothing_reached_its_block(mode: str) -> None:
    def decide(*predecessors: Predecessor) -> Decision:
        before = {str(place): each for place, each in enumerate(predecessors)}
        return decide_step(mode, before, "me", SETTLED)

    assert decide(NOT_CHOSEN, NOT_CHOSEN) is SKIP
    assert decide(NOT_CHOSEN, TAKEN) is RUN
    assert decide(FAILED, FAILED) is RUN
    assert decide(AFTER_FAILURE) is RUN
    assert decide(PASSED_OVER, NOT_CHOSEN) is RUN
    assert decide(TAKEN, OPEN) is WAIT


@pytest.mark.parametrize("join", [ALL, ALL_DONE, ANY, TWO])
def test_a_step_without_predecessors_runs_whatever_its_rule(join: JoinRule) -> None:
    assert decide_step(CONTINUE, {}, "me", join) is RUN
