"""A pipeline version as the orchestrator reads it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine_steps import transform
from support.oracle import random_graph

from pipeweave.orchestrator.domain.plan import END, WIDE, JoinKind, Plan, compile_plan
from pipeweave.spec import ANY, PipelineSpec, StepSpec
from pipeweave.spec.document import parse_spec


def plan_of(needs: Mapping[str, Sequence[str]]) -> Plan:
    steps = [{"id": step, "task": "t", "needs": list(before)} for step, before in needs.items()]
    return compile_plan(parse_spec({"id": "p", "steps": steps}))


DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def fan(count: int) -> dict[str, list[str]]:
    wide = [f"b{number}" for number in range(count)]
    return {"a": [], **{each: ["a"] for each in wide}, "z": wide}


def test_ordinals_number_the_steps_from_1_in_document_order() -> None:
    plan = plan_of(DIAMOND)
    assert plan.ordinals == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert [plan[ordinal].id for ordinal in (1, 2, 3, 4)] == list("abcd")


def test_the_end_of_the_run_waits_for_the_end_steps() -> None:
    plan = plan_of(DIAMOND | {"e": ["a"]})
    assert plan.ends == (4, 5)
    assert plan.awaited == plan.predecessors(END) == (4, 5)
    assert plan.successors(4) == (END,)
    assert plan.entries == (1,)


def test_the_end_of_the_run_waits_for_what_is_awaited_whatever_its_output_is_made_of() -> None:
    plan = replace(plan_of(DIAMOND), awaited=(2, 3))
    assert plan.predecessors(END) == (2, 3)
    assert plan.ends == (4,)


def test_the_end_of_the_run_also_waits_for_steps_that_an_early_join_may_leave_open() -> None:
    steps = (StepSpec("a", "t"), StepSpec("b", "t"), StepSpec("c", "t", ("a", "b"), join=ANY))
    plan = compile_plan(PipelineSpec("p", steps))
    assert (plan.ends, plan.awaited) == ((3,), (1, 2, 3))
    assert [plan.successors(each) for each in (1, 2, 3)] == [(3, END), (3, END), (END,)]


@pytest.mark.parametrize(
    ("of_step", "of_pipeline", "of_task", "pauses"),
    [
        (None, None, None, False),
        (None, None, "pause", True),
        (None, "fail", "pause", False),
        (None, "pause", None, True),
        ("fail", "pause", "pause", False),
        ("pause", "fail", None, True),
    ],
)
def test_the_nearest_place_says_whether_a_run_is_paused(
    of_step: str | None, of_pipeline: str | None, of_task: str | None, pauses: bool
) -> None:
    spec = PipelineSpec("p", (StepSpec("a", "t", on_exhausted=of_step),), on_exhausted=of_pipeline)
    plan = compile_plan(spec)
    assert plan.pauses(1, of_task) is pauses
    assert plan.may_pause is ("pause" in (of_step, of_pipeline))


def test_a_tolerated_failure_pauses_nothing() -> None:
    spec = PipelineSpec("p", (StepSpec("a", "t", continue_on_error=True),), on_exhausted="pause")
    assert not compile_plan(spec).pauses(1, "pause")
    mapped = {"id": "m", "task": "t", "map": {"over": [1], "failure": "settle"}}
    settling = compile_plan(parse_spec({"id": "p", "onExhausted": "pause", "steps": [mapped]}))
    assert not settling.pauses(1, "pause")
    own = compile_plan(parse_spec({"id": "p", "steps": [{**mapped, "onExhausted": "pause"}]}))
    assert own.pauses(1, None)


def test_the_steps_of_a_body_have_what_the_pipeline_says() -> None:
    inner = {"id": "inner", "task": "t"}
    steps = [{"id": "again", "loop": {"maxIterations": 2, "steps": [inner]}}]
    spec = parse_spec({"id": "p", "onExhausted": "pause", "steps": steps})
    assert compile_plan(spec.bodies["again.loop"]).pauses(1, None)


def test_a_step_without_a_task_has_the_queue_of_the_nearest_one_with_a_task() -> None:
    made = [transform(each, 1) for each in ("m", "n", "o")]
    steps = (made[0], StepSpec("a", "first"), made[1], StepSpec("b", "last"), made[2])
    assert compile_plan(PipelineSpec("p", steps)).nearest_task == {1: "first", 3: "first", 5: "last"}
    assert compile_plan(PipelineSpec("p", (made[0],))).nearest_task == {1: None}


def test_ancestors_are_all_before_a_step_in_document_order() -> None:
    plan = plan_of(DIAMOND | {"e": ["b"]})
    assert plan.ancestors("d") == ["a", "b", "c"]
    assert plan.ancestors("e") == ["a", "b"]
    assert plan.ancestors("a") == []


def test_the_level_of_a_step_is_its_longest_way_from_the_beginning() -> None:
    plan = plan_of(DIAMOND | {"e": ["a", "d"], "f": []})
    assert plan.levels == {1: 0, 2: 1, 3: 1, 4: 2, 5: 3, 6: 0}


@pytest.mark.parametrize(
    ("count", "kind"),
    [(1, JoinKind.SINGLE), (2, JoinKind.NARROW), (WIDE - 1, JoinKind.NARROW), (WIDE, JoinKind.GATHERED)],
)
def test_a_join_behind_one_fan_out_is_released_by_its_width(count: int, kind: JoinKind) -> None:
    assert plan_of(fan(count)).joins[count + 2] is kind


def test_a_wide_join_of_entries_is_gathered() -> None:
    entries = [f"b{number}" for number in range(WIDE)]
    assert plan_of({**{each: [] for each in entries}, "z": entries}).joins[WIDE + 1] is JoinKind.GATHERED


def test_a_wide_join_whose_predecessors_get_ready_at_different_times_is_irregular() -> None:
    later = fan(WIDE) | {"y": ["b0"]}
    later["z"] = [*later["z"], "y"]
    assert plan_of(later).joins[WIDE + 2] is JoinKind.IRREGULAR


def test_a_wide_join_behind_a_join_is_irregular() -> None:
    needs: dict[str, list[str]] = {"a": [], "b": []}
    wide = [f"c{number}" for number in range(WIDE)]
    needs |= {each: ["a", "b"] for each in wide} | {"z": wide}
    assert plan_of(needs).joins[WIDE + 3] is JoinKind.IRREGULAR


def test_a_step_knows_the_gathered_joins_it_is_part_of() -> None:
    plan = plan_of(fan(WIDE))
    assert plan.gathered(2) == (WIDE + 2,)
    assert plan.gathered(1) == ()


def test_wide_ends_are_a_join_of_their_own() -> None:
    plan = plan_of({"a": [], **{f"b{number}": ["a"] for number in range(WIDE)}})
    assert plan.joins[END] is JoinKind.GATHERED
    assert plan.gathered(2) == (END,)


@given(st.integers(0, 10_000))
def test_edges_agree_in_both_directions(seed: int) -> None:
    document, _ = random_graph(random.Random(seed), "p")
    spec = parse_spec(document)
    plan = compile_plan(spec)
    for planned in plan.steps:
        assert tuple(plan[each].id for each in planned.predecessors) == planned.step.needs
        for each in planned.successors:
            assert planned.ordinal in plan[each].predecessors
        for each in planned.predecessors:
            assert planned.ordinal in plan[each].successors
    assert set(plan.joins) == {each.ordinal for each in plan.steps if each.predecessors} | {END}
    assert all(plan.joins[each].is_wide == (len(plan.predecessors(each)) >= WIDE) for each in plan.joins)


def test_a_message_counts_for_gathered_joins_behind_its_steps_and_for_maps_alone() -> None:
    plan = plan_of(fan(20))
    join = plan.ordinals["z"]
    assert plan.joins[join] is JoinKind.GATHERED
    assert plan.countable([2, 3], [join, join]) == (join,)
    # Whatever a forged message names: other steps, the end, what is no step.
    assert plan.countable([2, 3], [*range(-5, join), *range(join + 1, 100_000)]) == ()
    assert plan.countable([1, 99, 0, -1], [join]) == ()
    mapped = {"id": "m", "task": "t", "needs": [], "map": {"over": "${input.list}"}}
    assert compile_plan(parse_spec({"id": "p", "steps": [mapped]})).countable([2, 3], [1, 2]) == (1,)
