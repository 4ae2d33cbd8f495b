"""Routing, skipping and failure modes with real workers, against a small model of the rules."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from support.live_stack import LiveStack
from support.oracle import random_graph, reference

from pipeweave.spec.rules import FAILURE_MODES


def graph(id: str, needs: dict[str, list[str]], **members: Any) -> dict[str, Any]:
    """A pipeline whose steps do what the run's input says."""
    steps = [{"id": step, "task": "act", "needs": before} for step, before in needs.items()]
    return {"id": id, "steps": steps, **members}


DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
WIDE = {"a": [], **{f"b{n}": ["a"] for n in range(10)}, "c": [f"b{n}" for n in range(10)], "d": ["c"]}
# Ten predecessors at different depths: an irregular wide join.
UNEVEN = {
    "a": [],
    **{f"b{n}": ["a"] for n in range(5)},
    **{f"c{n}": [f"b{n}"] for n in range(5)},
    "d": [*(f"b{n}" for n in range(5)), *(f"c{n}" for n in range(5))],
}

C, S, F, X = "completed", "skipped", "failed", "cancelled"


# --- routing ----------------------------------------------------------------------------------------------


def test_a_branch_that_was_not_chosen_is_skipped_and_the_join_still_runs(stack: LiveStack) -> None:
    run = stack.ran(graph("diamond", DIAMOND), {"choose": {"a": ["c"]}})
    assert run.status == "completed"
    assert stack.statuses(run.id) == {"a": C, "b": S, "c": C, "d": C}
    rows = stack.steps(run.id)
    assert rows["a"].selected_next == ["c"]
    assert rows["b"].error_code is None
    assert stack.called(run.id) == {"a": 1, "c": 1, "d": 1}


def test_choosing_nothing_skips_all_that_follows_and_completes_the_run(stack: LiveStack) -> None:
    run = stack.ran(graph("diamond", DIAMOND), {"choose": {"a": []}})
    assert (run.status, stack.statuses(run.id)) == ("completed", {"a": C, "b": S, "c": S, "d": S})


def test_choosing_nothing_says_more_than_choosing_everything(stack: LiveStack) -> None:
    run = stack.ran(graph("diamond", DIAMOND), {"choose": {"a": ["b", "c"], "b": [], "c": []}})
    assert (run.status, stack.statuses(run.id)) == ("completed", {"a": C, "b": C, "c": C, "d": S})


def test_a_join_runs_when_only_one_of_its_predecessors_chose_it(stack: LiveStack) -> None:
    run = stack.ran(graph("diamond", DIAMOND), {"choose": {"b": []}})
    assert (run.status, stack.statuses(run.id)) == ("completed", {"a": C, "b": C, "c": C, "d": C})


@pytest.mark.parametrize("chosen", [[], ["b3"], ["b0", "b9"], [f"b{n}" for n in range(9)]])
def test_a_wide_fan_out_runs_and_joins_its_selected_steps(stack: LiveStack, chosen: list[str]) -> None:
    run = stack.ran(graph("wide", WIDE), {"choose": {"a": chosen}})
    assert run.status == "completed"
    expected = {f"b{n}": C if f"b{n}" in chosen else S for n in range(10)}
    assert stack.statuses(run.id) == {"a": C, **expected, "c": C if chosen else S, "d": C if chosen else S}


@pytest.mark.parametrize("chosen", [[], ["b3"], ["b1", "b2"]])
def test_an_uneven_wide_join_runs_with_the_selected_steps(stack: LiveStack, chosen: list[str]) -> None:
    run = stack.ran(graph("uneven", UNEVEN), {"choose": {"a": chosen, "b1": ["d"], "b2": ["c2"]}})
    statuses = stack.statuses(run.id)
    assert run.status == "completed"
    assert statuses["d"] == (C if chosen else S)
    assert statuses["c1"] == S
    assert statuses["c2"] == (C if "b2" in chosen else S)


def test_a_chain_behind_a_skipped_step_is_skipped_to_its_end(stack: LiveStack) -> None:
    chain = {"a": [], **{f"s{n}": [f"s{n - 1}" if n else "a"] for n in range(30)}}
    run = stack.ran(graph("chain", chain), {"choose": {"a": []}})
    assert run.status == "completed"
    assert Counter(stack.statuses(run.id).values()) == {C: 1, S: 30}


def test_a_selection_of_a_step_that_does_not_follow_fails_the_attempt(stack: LiveStack) -> None:
    run = stack.ran(graph("diamond", DIAMOND), {"choose": {"a": ["d"]}})
    row = stack.steps(run.id)["a"]
    assert (run.status, row.status, row.error_code) == ("failed", F, "INVALID_NEXT_TASKS")
    assert "'d'" in row.error["message"]
    assert row.error["retryable"] is False


# --- failure modes ----------------------------------------------------------------------------------------


def test_fail_fast_ends_the_run_with_the_first_failure(stack: LiveStack) -> None:
    run = stack.ran(graph("diamond", DIAMOND), {"fail": {"a": []}})
    assert (run.status, stack.statuses(run.id)) == ("failed", {"a": F, "b": X, "c": X, "d": X})
    assert run.error["stepId"] == "a"


def test_continue_skips_the_descendants_of_a_failure_and_nothing_else(stack: LiveStack) -> None:
    needs = DIAMOND | {"e": ["b"], "f": ["c"], "g": ["d"], "h": []}
    run = stack.ran(graph("continue", needs), {"fail": {"b": []}}, failure_mode="continue")
    assert run.status == "failed"
    assert stack.statuses(run.id) == {"a": C, "b": F, "c": C, "d": S, "e": S, "f": C, "g": S, "h": C}
    assert {stack.steps(run.id)[each].error_code for each in "deg"} == {"PREDECESSOR_FAILED"}


def test_partial_merge_joins_completed_predecessors(stack: LiveStack) -> None:
    document = graph("partial", DIAMOND)
    document["steps"][3]["task"] = "look"
    run = stack.ran(document, {"fail": {"b": []}}, failure_mode="partial-merge")
    assert (run.status, stack.statuses(run.id)) == ("partial", {"a": C, "b": F, "c": C, "d": C})
    assert stack.output(stack.steps(run.id)["d"]) == {"a": "a", "c": "c"}


def test_partial_merge_skips_a_join_of_which_nothing_completed(stack: LiveStack) -> None:
    run = stack.ran(graph("partial2", DIAMOND), {"fail": {"b": [], "c": []}}, failure_mode="partial-merge")
    assert (run.status, stack.statuses(run.id)) == ("partial", {"a": C, "b": F, "c": F, "d": S})


@pytest.mark.parametrize("mode", FAILURE_MODES)
@pytest.mark.parametrize("shape", ["wide", "uneven"])
def test_a_wide_join_follows_the_failure_mode(stack: LiveStack, shape: str, mode: str) -> None:
    needs, join = (WIDE, "c") if shape == "wide" else (UNEVEN, "d")
    run = stack.ran(graph(shape, needs), {"fail": {"b1": [], "b4": []}}, failure_mode=mode)
    expected = {"fail-fast": X, "continue": S, "partial-merge": C}
    assert stack.statuses(run.id)[join] == expected[mode]
    assert run.status == ("partial" if mode == "partial-merge" else "failed")


def test_steps_see_the_outputs_of_their_ancestors_and_of_nobody_else(stack: LiveStack) -> None:
    document = graph("ancestors", DIAMOND | {"e": ["b"]})
    document["steps"][4]["task"] = "look"
    run = stack.ran(document)
    assert stack.output(stack.steps(run.id)["e"]) == {"a": "a", "b": "b"}


# --- against the model ------------------------------------------------------------------------------------

SEED = 20_261_120
GRAPHS = 12


def test_random_graphs_end_as_the_model_of_the_rules_says(stack: LiveStack) -> None:
    chance = random.Random(SEED)
    runs = []
    for number in range(GRAPHS):
        document, wishes = random_graph(chance, f"random-{number}")
        stack.store(document)
        for mode in FAILURE_MODES:
            run_id = stack.trigger(document["id"], wishes, failure_mode=mode)
            runs.append((run_id, document, wishes, mode))
    for run_id, document, wishes, mode in runs:
        run = stack.finished(run_id)
        expected = reference(document, wishes, mode)
        where = f"seed {SEED}, {document['id']}, {mode}"
        rows = stack.steps(run_id)
        assert run.status == expected.run_status, where
        if mode == "fail-fast" and expected.run_status == "failed":
            assert any(row.status == "failed" for row in stack.task_runs(run_id)), where
            for step, row in rows.items():
                assert row.status in (expected.statuses[step], "cancelled"), f"{where}, {step}"
            continue
        assert {step: row.status for step, row in rows.items()} == expected.statuses, where
        assert stack.called(run_id) == expected.calls, where
        began: dict[str, float] = {}
        ended: dict[str, float] = {}
        for call in stack.calls(run_id):
            step_id = str(call.step_id)
            began[step_id] = min(call.began, began.get(step_id, call.began))
            ended[step_id] = call.ended
        for step in document["steps"]:
            for before in step["needs"]:
                if step["id"] in began and before in ended:
                    assert ended[before] <= began[step["id"]], f"{where}, {step['id']} after {before}"
