"""Bodies, steps that are written inside of a step: what a document may say, and what its normal form is."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import Body, LoopStep, parse_spec

ITEMS = "${input.list}"


def read(*steps: dict[str, Any], **document: Any) -> Any:
    return parse_spec({"id": "p", "steps": list(steps), **document})


def mistakes(*steps: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refused:
        read(*steps)
    return {each.field: each.message for each in refused.value.errors}


def mapped(*steps: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return {"id": "each", "map": {"over": ITEMS, "steps": list(steps)}, **rules}


def looped(*steps: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return {"id": "again", "loop": {"steps": list(steps), "maxIterations": 3, **rules}}


def test_a_map_and_a_loop_hold_steps_and_their_normal_form_parses_to_itself() -> None:
    spec = read(mapped({"task": "a"}, {"task": "b"}), looped({"task": "c"}, until="last.ok"))
    each, again = (step.decides for step in spec.steps)
    assert isinstance(each, Body) and isinstance(again, LoopStep) and isinstance(again.body, Body)
    assert [(step.id, step.needs) for step in each.steps] == [("a", ()), ("b", ("a",))]
    assert [step.id for step in again.body.steps] == ["c"]
    assert parse_spec(spec.to_json()) == spec


def test_a_body_is_a_pipeline_of_the_same_tasks_rules_and_variables() -> None:
    spec = read(
        looped({"id": "in", "map": {"over": ITEMS, "steps": [{"id": "deep", "task": "d"}]}}, {"task": "e"}),
        failureMode="continue",
        code="pinned",
        variables={"limit": 3},
    )
    assert list(spec.bodies) == ["again.loop", "in.map"]
    assert spec.tasks == {"d", "e"}
    for body in spec.bodies.values():
        assert (body.id, body.failure_mode, body.code, body.variables) == (
            "p",
            "continue",
            "pinned",
            {"limit": 3},
        )
    assert spec.bodies["in.map"].tasks == {"d"}


def test_what_a_body_names_around_it_precedes_its_step() -> None:
    spec = read(
        {"id": "a", "task": "t"},
        {"id": "b", "task": "t", "needs": []},
        {"id": "c", "task": "t", "needs": []},
        mapped(
            {"id": "x", "task": "t", "params": {"v": "${steps.a.v}"}},
            {"id": "y", "task": "t", "condition": "steps.x.ok && status.b == 'completed'"},
            looped({"id": "z", "task": "t", "params": {"v": "${steps.c} ${item} ${loop.index}"}}),
            needs=[],
        ),
    )
    assert spec.steps[3].needs == ("a", "b", "c")
    assert [step.needs for step in spec.bodies["each.map"].steps] == [(), ("x",), ("y",)]
    assert parse_spec(spec.to_json()) == spec


def test_a_body_that_names_a_branch_follows_the_choice() -> None:
    spec = read(
        {"id": "if", "choice": [{"condition": "input.a", "steps": [{"id": "then", "task": "t"}]}]},
        mapped({"id": "x", "task": "t", "params": {"v": "${steps.then ?? 1}"}}, needs=[]),
    )
    assert spec.steps[2].needs == ("if", "then")


def test_a_choice_and_a_parallel_block_may_be_in_a_body() -> None:
    spec = read(
        mapped(
            {"id": "if", "choice": [{"condition": "item.a", "steps": [{"id": "then", "task": "t"}]}]},
            {
                "parallel": {
                    "failure": "settle",
                    "steps": [{"id": "l", "task": "t"}, {"id": "r", "task": "t"}],
                }
            },
        )
    )
    assert [step.id for step in spec.bodies["each.map"].steps] == ["if", "then", "l", "r", "gather"]
    assert parse_spec(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("step", "field", "why"),
    [
        (mapped(), "steps[1].map.steps", "must hold at least one step"),
        (mapped({}), "steps[1].map.steps[0].task", "is required"),
        (
            {"id": "each", "map": {"over": ITEMS, "steps": 3}},
            "steps[1].map.steps",
            "must be a list, not a number",
        ),
        (
            {"id": "each", "map": {"over": ITEMS, "as": "x", "steps": [{"task": "t"}]}},
            "steps[1].map.as",
            "they see it as ${item}",
        ),
        (mapped({"task": "t"}, task="t"), "steps[1].map.steps", "cannot be given together with `task`"),
        (mapped({"task": "t"}, params={"a": 1}), "steps[1].params", "may refer to whatever the step may"),
        (
            {"id": "l", "loop": {"steps": [{"task": "t"}], "pipeline": "p2", "maxIterations": 2}},
            "steps[1].loop.pipeline",
            "cannot be given together with `steps`",
        ),
        (mapped({"id": "a", "task": "t"}), "steps[1].map.steps[0].id", "'a' is the id of steps[0], too"),
        (
            mapped({"task": "t", "params": {"v": "${loop.index}"}}),
            "steps[1].map.steps[0].params.v",
            "only in a loop",
        ),
        (
            looped({"task": "t", "params": {"v": "${item}"}}),
            "steps[1].loop.steps[0].params.v",
            "has no value in a step without `map`",
        ),
        (looped({"task": "t", "condition": "last.ok"}), "steps[1].loop.steps[0].condition", "only in a loop"),
        (
            mapped({"task": "t", "params": {"v": "${steps.aa}"}}),
            "steps[1].map.steps[0].params.v",
            "'aa' is not a step; did you mean 'a'?",
        ),
        (
            mapped({"task": "t", "params": {"v": "${steps.each}"}}),
            "steps[1].map.steps[0].params.v",
            "is the output of the step around it",
        ),
        (
            mapped({"task": "t", "needs": ["a"]}),
            "steps[1].map.steps[0].needs[0]",
            "'a' is a step around this body",
        ),
    ],
)
def test_a_wrong_body_is_refused_with_its_field(step: dict[str, Any], field: str, why: str) -> None:
    refused = mistakes({"id": "a", "task": "t"}, step)
    assert why in refused[field]


def test_nobody_outside_names_a_step_of_a_body() -> None:
    refused = mistakes(
        mapped({"id": "x", "task": "t"}),
        {"id": "b", "task": "t", "params": {"v": "${steps.x}"}},
        looped({"id": "y", "task": "t", "params": {"v": "${steps.x}"}}),
    )
    where = "'x' is a step in a body, at steps[0].map.steps[0]"
    assert refused == {"steps[1].params.v": where, "steps[2].loop.steps[0].params.v": where}


def test_all_mistakes_of_all_bodies_are_told_at_once() -> None:
    refused = mistakes(
        mapped({"id": "x", "task": "t", "params": {"v": "${steps.no}"}}, {"id": "y"}),
        looped({"id": "z", "task": "t", "condition": "input.a +"}),
    )
    assert list(refused) == [
        "steps[0].map.steps[1].task",
        "steps[0].map.steps[0].params.v",
        "steps[1].loop.steps[0].condition",
    ]


def test_the_steps_of_bodies_count() -> None:
    refused = mistakes(*({"id": f"s{n}", "task": "t"} for n in range(MAX_STEPS - 1)), mapped({"task": "t"}))
    assert refused == {"steps": f"are {MAX_STEPS + 1}, at most {MAX_STEPS} are allowed"}


def test_the_circle_of_a_body_is_told() -> None:
    circle = mistakes(
        mapped({"id": "x", "task": "t", "needs": ["y"]}, {"id": "y", "task": "t", "needs": ["x"]})
    )
    assert any("wait for each other" in why for why in circle.values())
