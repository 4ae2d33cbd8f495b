"""Random documents with choices and blocks: read, written and read again, and played through to the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeweave.errors import InvalidSpec
from pipeweave.spec import ALL, Choice, Decision, Graph, PipelineSpec, Predecessor, parse_spec
from pipeweave.spec.rules import CONTINUE, decide_step, follows_failure

# How a choice decides, by its id; and the branches that a step is written in: (choice, case), outer first.
Way = Mapping[str, int]
Branches = tuple[tuple[str, int], ...]


@dataclass
class Drawn:
    """A document with what its author meant."""

    steps: list[Any]
    branches: dict[str, Branches] = field(default_factory=dict)


class _Author:
    """Draws one document: sequences, parallel blocks and choices in each other."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.drawn = Drawn([])
        self.tasks = 0

    def named(self, word: str, branches: Branches) -> str:
        id = f"{word}{len(self.drawn.branches)}"
        self.drawn.branches[id] = branches
        return id

    def step(self, branches: Branches) -> dict[str, Any]:
        id, before = f"s{self.tasks}", self.tasks
        back = self.draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, -1]), max_size=2))
        self.tasks += 1
        self.drawn.branches[id] = branches
        roots = st.sampled_from(["steps", "status"])
        values = [f"${{{self.draw(roots)}.s{before - each}}}" for each in back if before >= each]
        made: dict[str, Any] = self.draw(
            st.sampled_from(
                [
                    {"task": "t", "params": {"values": values}},
                    {"transform": {"values": values}},
                    {"signal": ["a", "b"]},
                    {"sleep": "1m"},
                    {"adapter": "pay", "action": "charge", "params": {"values": values}},
                ]
            )
        )
        return {"id": id, **made, **({"condition": "input.ok"} if self.draw(st.booleans()) else {})}

    def choice(self, depth: int, branches: Branches) -> dict[str, Any]:
        id = self.named("c", branches)
        cases = [
            {
                "condition": f"input.way == {number}",
                "steps": self.sequence(depth - 1, (*branches, (id, number)), 0),
            }
            for number in range(self.draw(st.integers(1, 3)))
        ]
        return {"id": id, "choice": cases}

    def block(self, depth: int, branches: Branches) -> dict[str, Any]:
        count = self.draw(st.integers(1, 3))
        members = [self.item(depth - 1, branches, may_be_block=False) for _ in range(count)]
        if self.draw(st.booleans()):
            members.append({"steps": self.sequence(depth - 1, branches, 1)})
        if self.draw(st.booleans()):
            return {"parallel": members}
        return {"id": self.named("g", branches), "parallel": {"failure": "settle", "steps": members}}

    def item(self, depth: int, branches: Branches, *, may_be_block: bool = True) -> dict[str, Any]:
        kinds = ["step", "step"] + (["choice"] + ["block", "block"] * may_be_block if depth > 0 else [])
        match self.draw(st.sampled_from(kinds)):
            case "choice":
                return self.choice(depth, branches)
            case "block":
                return self.block(depth, branches)
            case _:
                return self.step(branches)

    def sequence(self, depth: int, branches: Branches, least: int) -> list[Any]:
        return [self.item(depth, branches) for _ in range(self.draw(st.integers(least, 3)))]


@st.composite
def documents(draw: st.DrawFn) -> Drawn:
    """A document whose params refer to steps before and behind them, also where that is impossible."""
    author = _Author(draw)
    author.drawn.steps = author.sequence(3, (), 1)
    return author.drawn


def parsed(drawn: Drawn) -> PipelineSpec | None:
    """The spec; None if the document says something impossible, which is then told with its field."""
    try:
        return parse_spec({"id": "p", "steps": drawn.steps})
    except InvalidSpec as refused:
        assert refused.errors
        assert all(each.field.startswith("steps") and each.message for each in refused.errors)
        return None


@settings(max_examples=150, deadline=None)
@given(documents())
def test_the_normal_form_of_a_random_document_parses_to_itself(drawn: Drawn) -> None:
    spec = parsed(drawn)
    if spec is not None:
        again = parse_spec(spec.to_json())
        assert again == spec
        assert again.spec_hash == spec.spec_hash


@settings(max_examples=150, deadline=None)
@given(documents(), st.data())
def test_every_step_runs_exactly_where_its_branches_are_taken(drawn: Drawn, data: st.DataObject) -> None:
    spec = parsed(drawn)
    if spec is None:
        return
    choices = {each.id: each.decides for each in spec.steps if isinstance(each.decides, Choice)}
    way = {id: data.draw(st.integers(0, len(each.cases))) for id, each in choices.items()}
    passed = data.draw(st.sets(st.sampled_from([each.id for each in spec.steps if each.condition] or ["-"])))
    played = dict(play(spec, way, passed))
    for step in spec.steps:
        is_taken = all(way[choice] == case for choice, case in drawn.branches[step.id])
        assert played[step.id] == (Decision.RUN if is_taken else Decision.SKIP), step


def play(spec: PipelineSpec, way: Way, passed: set[str]) -> Iterator[tuple[str, Decision]]:
    """What is decided about each step if no task fails.

    Args:
        way: the case that each choice takes; beyond its last: none.
        passed: the steps whose condition is false.
    """
    ended: dict[str, Predecessor] = {}
    graph = Graph(spec)
    for id in graph.order:
        step = spec.by_id[id]
        before = {each: ended[each] for each in step.needs}
        decision = decide_step(CONTINUE, before, id, step.join)
        assert decision is not Decision.WAIT
        if decision is Decision.SKIP:
            ended[id] = Predecessor("skipped", follows_failure=follows_failure(before.values()))
        elif id in passed:
            ended[id] = Predecessor("skipped", is_passed_over=True)
        else:
            ended[id] = Predecessor("completed", _selected(spec, graph, id, way))
        yield id, decision


def _selected(spec: PipelineSpec, graph: Graph, id: str, way: Way) -> frozenset[str] | None:
    choice = spec.by_id[id].decides
    if not isinstance(choice, Choice):
        return None
    taken = choice.cases[way[id]].next if way[id] < len(choice.cases) else ()
    return frozenset(taken) | (set(graph.successors[id]) - choice.branches)


def test_a_plain_document_has_plain_steps() -> None:
    spec = parse_spec({"id": "p", "steps": [{"task": "a"}, {"task": "b"}]})
    assert all(each.is_plain and each.join == ALL for each in spec.steps)
