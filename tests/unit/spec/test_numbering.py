"""The order in which the steps of a version are numbered, on any graph."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import testing
from pipeweave.orchestrator.domain.plan import compile_plan
from pipeweave.spec.document import parse_spec
from pipeweave.spec.graph import Graph, dry_run

Document = dict[str, Any]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A pipeline of steps without cycles, written in any order."""
    names = draw(st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1, max_size=9, unique=True))
    steps = []
    for place, name in enumerate(names):
        before = draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        steps.append({"id": name, "task": "t", "needs": before})
    return {"id": "p", "steps": draw(st.permutations(steps))}


def nothing() -> None:
    """A task."""


@given(documents())
def test_the_engine_the_dry_run_and_local_runs_have_one_order(document: Document) -> None:
    spec = parse_spec(document)
    plan = compile_plan(spec.numbered)
    order = [each.id for each in plan.steps]
    assert order == list(Graph(spec).order)
    levels = [level.tasks for level in dry_run(spec).plan]
    assert [list(each) for each in levels] == [sorted(each) for each in levels]
    assert sorted(order) == sorted(each for level in levels for each in level)
    assert [each for each in order if not plan[plan.ordinals[each]].predecessors] == list(levels[0])
    assert list(testing.run_pipeline(document, tasks={"t": nothing}).steps) == order


@given(documents(), st.randoms(use_true_random=False))
def test_the_order_in_which_steps_are_written_makes_no_version(document: Document, chance: Any) -> None:
    written = list(document["steps"])
    chance.shuffle(written)
    again = [{**each, "needs": list(reversed(each["needs"]))} for each in written]
    specs = [parse_spec({**document, "steps": steps}) for steps in (document["steps"], again)]
    assert specs[0].spec_hash == specs[1].spec_hash
    assert specs[0].numbered == specs[1].numbered


@given(documents())
def test_a_numbered_spec_comes_back_from_its_document(document: Document) -> None:
    numbered = parse_spec(document).numbered
    assert parse_spec(numbered.to_json()) == numbered
    assert numbered.numbered == numbered
    assert numbered.written_hash == numbered.spec_hash


TWO: list[Document] = [{"id": "z", "task": "t", "needs": []}, {"id": "b", "task": "t", "needs": []}]


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"steps": [{"id": "m", "map": {"over": [1], "steps": TWO}}]}, "m.map"),
        ({"steps": [{"id": "l", "loop": {"steps": TWO, "maxIterations": 2}}]}, "l.loop"),
        ({"steps": [{"id": "e", "task": "t", "onError": {"steps": TWO}}]}, "e.onError"),
        ({"steps": [{"id": "c", "task": "t", "compensate": {"steps": TWO}}]}, "c.compensate"),
        ({"steps": [{"id": "a", "task": "t"}], "errorHandlers": [{"steps": TWO}]}, "errorHandlers[0]"),
        ({"steps": [{"id": "a", "task": "t"}], "finally": {"steps": TWO}}, "finally"),
    ],
)
def test_the_steps_of_bodies_are_numbered_as_well(members: Document, place: str) -> None:
    spec = parse_spec({"id": "p", **members})
    assert [each.id for each in spec.bodies[place].steps] == ["z", "b"]
    assert [each.id for each in spec.numbered.bodies[place].steps] == ["b", "z"]
