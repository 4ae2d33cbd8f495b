"""What a rerun from a step reuses: it ends as a run from the beginning whose reused steps ended alike."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracle import random_graph, reference

from pipeweave.orchestrator.domain import reuse
from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.domain.reuse import OldStep
from pipeweave.spec.document import parse_spec
from pipeweave.spec.rules import FAIL_FAST, FAILURE_MODES, PARTIAL_MERGE

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def plan_of(needs: Mapping[str, Sequence[str]], **steps: Any) -> Plan:
    listed = [
        {"id": step, "task": "t", "needs": list(before), **steps.get(step, {})}
        for step, before in needs.items()
    ]
    return compile_plan(parse_spec({"id": "p", "steps": listed}))


def completed(*steps: str, **chosen: Sequence[str]) -> dict[str, OldStep]:
    return {each: OldStep(True, chosen.get(each)) for each in steps}


def reused(plan: Plan, old: Mapping[str, OldStep], begin: str, mode: str = FAIL_FAST) -> str:
    return "".join(plan[each].id for each in reuse.decide(plan, mode, old, begin).steps)


@pytest.mark.parametrize(("begin", "kept"), [("a", ""), ("b", "ac"), ("c", "ab"), ("d", "abc")])
def test_what_is_behind_the_step_runs_again(begin: str, kept: str) -> None:
    assert reused(plan_of(DIAMOND), completed(*"abcd"), begin) == kept


def test_what_did_not_complete_runs_with_all_that_follows_it() -> None:
    needs = {**DIAMOND, "e": ["b"]}
    assert reused(plan_of(needs), completed("a", "c", "d", "e"), "d", PARTIAL_MERGE) == "ac"


def test_a_step_that_was_chosen_away_says_so() -> None:
    plan = plan_of(DIAMOND)
    found = reuse.decide(plan, FAIL_FAST, completed("a", "b", "d", a=["b"]), "c")
    assert found.is_skipped
    assert reused(plan, completed("a", "b", "d", a=["b"]), "d") == "ab"


def test_a_condition_that_was_false_stays_false_in_front_of_the_step() -> None:
    plan = plan_of(DIAMOND, b={"condition": "input.n > 5"})
    old = {**completed("a", "c", "d"), "b": OldStep(False, is_passed_over=True)}
    decided = reuse.decide(plan, FAIL_FAST, old, "d")
    assert (decided.steps, decided.passed_over) == ((1, 3), (2,))
    assert reuse.first_steps(plan, {1, 2, 3}) == [4]
    # From the step itself it is decided anew; and behind a step that runs again, too.
    assert reuse.decide(plan, FAIL_FAST, old, "b").passed_over == ()
    assert reuse.decide(plan, FAIL_FAST, old, "a").passed_over == ()
    assert reuse.decided_by_input(plan, [2]) == ["b"]


def test_the_first_steps_have_reused_predecessors_only() -> None:
    plan = plan_of({**DIAMOND, "x": []})
    assert reuse.first_steps(plan, {1, 2}) == [3, 5]
    assert reuse.first_steps(plan, ()) == [1, 5]


def test_readers_of_the_input_are_those_without_params_or_with_references_to_it() -> None:
    plan = plan_of(
        DIAMOND,
        b={"params": {"n": "${input.n}"}},
        c={"params": {"n": "${steps.a.n}"}},
        d={"params": {"k": 1}, "map": {"over": "${input.list}"}},
    )
    assert reuse.readers_of_input(plan, [1, 2, 3, 4]) == ["a", "b", "d"]


def test_steps_that_another_version_changed_or_lost_are_named() -> None:
    old = plan_of(DIAMOND)
    new = plan_of({"a": [], "b": ["a"], "d": ["b"]}, b={"params": {"n": 1}})
    assert reuse.lost_steps(old, new, [1, 2, 3], "d") == ["b", "c"]
    assert reuse.lost_steps(old, new, [1, 3], "b") == ["c"]
    assert reuse.same_steps(old, new) == {"a"}


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from(FAILURE_MODES))
def test_reused_steps_complete_in_the_run_that_begins_anew_too(seed: int, mode: str) -> None:
    """Whatever the steps do that run again: the reused ones stand where a whole run would have them."""
    chance = random.Random(seed)
    document, before = random_graph(chance, "p")
    plan = compile_plan(parse_spec(document))
    statuses = reference(document, before, mode).statuses
    if mode == FAIL_FAST and "failed" in statuses.values():
        # Where it stopped is a matter of time: any step may not have been reached.
        statuses = {step: each for step, each in statuses.items() if chance.random() < 0.7}
    old = {
        step: OldStep(each == "completed" and not before["fail"].get(step), before["choose"].get(step))
        for step, each in statuses.items()
    }
    begin = chance.choice([each.id for each in plan.steps])
    decided = reuse.decide(plan, mode, old, begin)
    if decided.is_skipped:
        return
    kept = {plan[each].id for each in decided.steps}

    _, other = random_graph(random.Random(seed), "p")
    fail = {step: [] for step in plan.ordinals if step not in kept and chance.random() < 0.3}
    choose = {step: chosen for step, chosen in other["choose"].items() if step in kept}
    whole = reference(document, {**before, "fail": fail, "choose": choose}, mode)
    assert {whole.statuses[each] for each in kept} <= {"completed"}

    behind = {begin}
    for step in document["steps"]:
        if behind & set(step["needs"]):
            behind.add(step["id"])
    assert not kept & behind
    there = {id for id, each in old.items() if each.is_completed} - behind
    free = {step["id"] for step in document["steps"] if set(step["needs"]) <= kept}
    assert there & free <= kept, "all that can be reused is"


def test_a_body_that_reads_the_input_makes_its_step_a_reader() -> None:
    def looping(value: str) -> Plan:
        inner = {"id": "inner", "task": "t", "params": {"x": value}}
        steps = [{"id": "again", "loop": {"maxIterations": 2, "steps": [inner]}}]
        return compile_plan(parse_spec({"id": "p", "steps": steps}))

    assert reuse.readers_of_input(looping("${input.x}"), [1]) == ["again"]
    assert reuse.readers_of_input(looping("${loop.index}"), [1]) == []
