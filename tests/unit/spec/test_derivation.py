"""Pipelines derived from `allowed_next`."""

from __future__ import annotations

import pytest

from pipeweave.authoring import TaskSpec
from pipeweave.errors import InvalidSpec
from pipeweave.spec import derive, parse_spec
from pipeweave.spec.graph import Graph


def tasks(**after: list[str]) -> list[TaskSpec]:
    return [TaskSpec(id=id, code_hash="0" * 64, allowed_next=tuple(each)) for id, each in after.items()]


def test_each_entry_task_names_a_pipeline_of_all_that_can_follow() -> None:
    found = derive(
        tasks(join=[], left=["join"], start=["right", "left"], right=["join"], other=["left"], lone=[])
    )
    assert [spec.id for spec in found] == ["other", "start"]
    assert {step.id: step.needs for step in found[1].steps} == {
        "start": (),
        "left": ("start",),
        "right": ("start",),
        "join": ("left", "right"),
    }
    assert {step.id: step.needs for step in found[0].steps} == {
        "other": (),
        "left": ("other",),
        "join": ("left",),
    }
    assert Graph(found[1]).order == ("start", "left", "right", "join")


def test_a_derived_spec_is_normalised_like_any_other() -> None:
    for spec in derive(tasks(z=["a", "m"], m=["a", "b"], a=["b"], b=[])):
        assert parse_spec(spec.to_json()) == spec
        assert all(step.params is None for step in spec.steps)


def test_the_order_of_the_tasks_does_not_matter() -> None:
    given = tasks(z=["a", "m"], m=["a", "b"], a=["b"], b=[])
    assert [spec.spec_hash for spec in derive(given)] == [spec.spec_hash for spec in derive(reversed(given))]


def test_a_circle_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidSpec, match="a → b → a") as refused:
        derive(tasks(a=["b"], b=["a"]))
    assert refused.value.context["graphErrors"][0]["steps"] == ["a", "b", "a"]


def test_an_unknown_follower_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidSpec) as refused:
        derive(tasks(start=["reprot"], report=[]))
    assert refused.value.errors[0].field == "tasks.start.allowedNext[0]"
    assert "did you mean 'report'" in refused.value.errors[0].message


def test_an_unknown_follower_that_resembles_no_task_is_refused_with_some_tasks() -> None:
    with pytest.raises(InvalidSpec, match="'xyz' is not a task; the tasks are start, report"):
        derive(tasks(start=["xyz"], report=[]))
