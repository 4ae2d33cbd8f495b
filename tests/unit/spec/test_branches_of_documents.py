"""Choices and blocks of a document: what follows what, and who may refer to whom."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec import Choice, Gather, PipelineSpec, parse_spec
from pipeweave.spec.joins import SETTLED


def read(*steps: Any) -> PipelineSpec:
    spec = parse_spec({"id": "p", "steps": list(steps)})
    assert parse_spec(spec.to_json()) == spec
    return spec


def needs_of(*steps: Any) -> dict[str, list[str]]:
    return {step.id: list(step.needs) for step in read(*steps).steps}


def mistakes(*steps: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec({"id": "p", "steps": list(steps)})
    return {each.field: each.message for each in refused.value.errors}


def choice(*branches: Any, id: str = "c") -> dict[str, Any]:
    """A choice with a branch for each list of steps; the last one is the default."""
    *cases, default = branches
    listed = [{"condition": f"input.way == {at}", "steps": each} for at, each in enumerate(cases)]
    return {"id": id, "choice": [*listed, {"steps": default}]}


def task(id: str, *named: str, **more: Any) -> dict[str, Any]:
    """A step whose params refer to other steps."""
    params = {"params": {"values": [f"${{steps.{each}}}" for each in named]}} if named else {}
    return {"id": id, "task": "t", **params, **more}


def test_what_follows_a_choice_follows_its_branches_and_the_choice_itself() -> None:
    assert needs_of(task("a"), choice([task("b"), task("c1")], [task("d")]), task("e")) == {
        "a": [],
        "c": ["a"],
        "b": ["c"],
        "c1": ["b"],
        "d": ["c"],
        "e": ["c", "c1", "d"],
    }


def test_the_normal_form_names_the_first_steps_of_each_branch() -> None:
    spec = read(choice([task("a"), task("b")], [{"parallel": [task("x"), task("y")]}], []))
    assert spec.by_id["c"].to_json()["choice"] == [
        {"condition": "input.way == 0", "next": ["a"]},
        {"condition": "input.way == 1", "next": ["x", "y"]},
        {"next": []},
    ]


def test_what_a_branch_refers_to_precedes_its_choice_and_not_the_branch() -> None:
    found = needs_of(
        {"parallel": [task("a"), task("b")]},
        choice([task("d", "a", "b"), task("e", "a")], [], id="c") | {"needs": ["b"]},
    )
    assert found == {"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": ["d"]}


def test_who_refers_into_a_branch_from_outside_follows_its_choice() -> None:
    found = needs_of(choice([task("a")], [task("b")]), task("z", "a", needs=[]))
    assert found["z"] == ["c", "a"]


def test_of_nested_branches_the_outermost_choice_is_followed() -> None:
    inner = choice([task("deep")], [], id="inner")
    found = needs_of(choice([task("a"), inner], [], id="outer"), task("z", "deep", needs=[]))
    assert found["z"] == ["outer", "deep"]
    same = needs_of(choice([inner, task("z", "deep", needs=[])], [], id="outer"))
    assert same["z"] == ["outer", "inner", "deep"]


def test_a_step_of_a_branch_may_refer_to_its_own_choice() -> None:
    assert needs_of(choice([task("a"), task("b", "c")], []))["b"] == ["a"]


def test_steps_of_branches_that_exclude_each_other_cannot_refer_to_each_other() -> None:
    wrong = mistakes(choice([task("a")], [task("b", "a")]))
    (field,) = wrong
    assert field == "steps[0].choice[1].steps[0].params.values[0]"
    assert "in another branch of choice 'c'" in wrong[field]
    assert "status.a" in wrong[field]
    spec = read(choice([task("a")], [task("b", condition="status.a == 'skipped'")]))
    assert spec.by_id["b"].needs == ("c",)


def test_a_branch_cannot_read_what_comes_after_its_choice() -> None:
    wrong = mistakes(choice([task("a", "z")], []), task("z", needs=["c"]))
    assert "comes after choice 'c', but outside of the branch" in next(iter(wrong.values()))


def test_a_step_in_two_cases_runs_in_both() -> None:
    cases = [
        {"condition": "input.a", "next": ["x"]},
        {"condition": "input.b", "next": ["x", "y"]},
    ]
    spec = read({"id": "c", "choice": cases}, task("x"), task("y"), task("z", "x", "y", needs=["c"]))
    assert {each.id: each.needs for each in spec.steps} == {
        "c": (),
        "x": ("c",),
        "y": ("c",),
        "z": ("c", "x", "y"),
    }
    excluded = mistakes({"id": "c", "choice": cases}, task("x"), task("y", "x"), task("z", needs=["y"]))
    assert "runs in more branches" in next(iter(excluded.values()))


def test_all_done_is_refused_in_a_branch() -> None:
    wrong = mistakes(choice([task("a"), task("b", join="all-done")], []))
    assert "although its branch was not taken" in wrong["steps[0].choice[0].steps[1].join"]


@pytest.mark.parametrize(
    ("step", "field", "why"),
    [
        ({"choice": []}, ".choice", "must be a list of cases"),
        ({"choice": [{"steps": []}]}, ".choice[0]", "needs a case with a condition"),
        ({"choice": [5]}, ".choice[0]", "must be a case, not a number"),
        ({"choice": [{"condition": "input.a"}]}, ".choice[0].steps", "is required"),
        (
            {"choice": [{"steps": []}, {"condition": "input.a", "steps": []}]},
            ".choice[0].condition",
            "only the last case",
        ),
        ({"choice": [{"condition": "input.a", "steps": 5}]}, ".choice[0].steps", "must be a list of steps"),
        ({"choice": [{"condition": "input.a", "steps": [5]}]}, ".choice[0].steps[0]", "must be a step"),
        ({"choice": [{"condition": "input.a", "next": ["nobody"]}]}, ".choice[0].next", "is not a step"),
        ({"choice": [{"condition": "input.a", "next": [], "steps": []}]}, ".choice[0].next", "together"),
        ({"choice": [{"condition": "input.a", "nxt": [], "steps": []}]}, ".choice[0].nxt", "'next'"),
        (
            {"choice": [{"condition": "input.a", "name": 5, "steps": []}]},
            ".choice[0].name",
            "must be a text",
        ),
        (
            {"choice": [{"condition": "input.a", "steps": []}] * 51},
            ".choice",
            "has 51 cases, at most 50 are allowed",
        ),
        (
            {"choice": [{"condition": "input.a", "steps": []}], "condition": "input.b"},
            ".condition",
            "its cases say what runs",
        ),
        (
            {"choice": [{"condition": "input.a", "steps": []}], "retry": {}},
            ".retry",
            "it runs no task",
        ),
        ({"gather": []}, ".gather", "must name the steps"),
        ({"gather": ["first", "nobody"]}, ".gather[1]", "is not a step"),
        ({"gather": ["first"], "needs": []}, ".gather", "does not come before the gather"),
        ({"gather": ["first"], "join": "any"}, ".join", "is not allowed next to `gather`"),
        ({"parallel": {"steps": []}}, ".parallel.steps", "must be a list of steps"),
        ({"parallel": {"failure": "stop", "steps": [{"task": "t"}]}}, ".parallel.failure", "run or settle"),
        ({"parallel": {"stops": []}}, ".parallel.stops", "did you mean 'steps'"),
        ({"parallel": [{"steps": []}]}, ".parallel[0].steps", "must be a list of steps"),
    ],
)
def test_a_wrong_block_is_refused_with_its_field(step: Any, field: str, why: str) -> None:
    assert why in mistakes({"id": "first", "task": "t"}, step)[f"steps[1]{field}"]


def test_a_block_that_settles_gets_a_gather_that_precedes_what_follows() -> None:
    block = {"failure": "settle", "steps": [task("a"), {"steps": [task("b"), task("d")]}]}
    spec = read(task("s"), {"parallel": block}, task("e"))
    assert {each.id: each.needs for each in spec.steps} == {
        "s": (),
        "a": ("s",),
        "b": ("s",),
        "d": ("b",),
        "gather": ("a", "d"),
        "e": ("gather",),
    }
    gather = spec.by_id["gather"]
    assert gather.decides == Gather(("a", "b", "d"))
    assert gather.join == SETTLED
    assert gather.to_json() == {"id": "gather", "gather": ["a", "b", "d"], "needs": ["a", "d"]}


def test_a_block_without_failure_is_the_plain_list() -> None:
    steps = [task("a"), task("b")]
    assert read({"parallel": {"steps": steps}}) == read({"parallel": steps})
    assert read({"parallel": {"steps": steps, "failure": "run"}}) == read({"parallel": steps})


def test_a_gather_may_have_an_id_and_else_takes_a_free_one() -> None:
    block = {"failure": "settle", "steps": [{"task": "t"}]}
    named = [
        each.id
        for each in read({"id": "all", "parallel": block}, {"parallel": block}, {"parallel": block}).steps
    ]
    assert named == ["t", "all", "t_2", "gather", "t_3", "gather_2"]


def test_steps_of_the_engine_without_id_are_called_by_what_they_do() -> None:
    spec = read(
        {"transform": 1}, {"sleep": 5}, {"sleepUntil": "${input.at}"}, {"signal": "paid"}, {"transform": 2}
    )
    assert [each.id for each in spec.steps] == ["transform", "sleep", "sleep_2", "signal", "transform_2"]
    assert [each.task for each in spec.steps][:2] == ["pipeweave:transform", "pipeweave:sleep"]


def test_a_choice_written_flat_needs_no_needs_for_the_first_steps() -> None:
    cases = [{"condition": "input.a", "next": ["a"]}, {"next": ["b"]}]
    spec = read({"id": "c", "choice": cases}, task("a"), task("b"), task("z", needs=["a", "b", "c"]))
    assert isinstance(spec.steps[0].decides, Choice)
    assert [each.needs for each in spec.steps] == [(), ("c",), ("c",), ("c", "a", "b")]
