"""Random pipelines with conditions, choices, join rules and tolerated failures, and what their runs come to.

The model has the tables of docs/state-machine.md, written down once more: it knows neither the rules of the
engine nor its expressions. Each condition comes with the answer that the model gives.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from pipeweave.errors import InvalidSpec
from pipeweave.spec import (
    ALL,
    ALL_DONE,
    Case,
    Choice,
    FailIf,
    Gather,
    JoinRule,
    MapSpec,
    PipelineSpec,
    StepSpec,
    Transform,
    engine_task,
    parse_spec,
)
from pipeweave.spec.joins import SETTLED

FAILED = ("failed", "timeout", "cancelled")
# What a condition gives that cannot be evaluated.
BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class End:
    """How a step ended in the model.

    Args:
        cause: of a skipped step: `condition`, `failure`, or None if it was not chosen.
        chosen: the successors that it chose; None for all.
    """

    status: str
    cause: str | None = None
    chosen: frozenset[str] | None = None
    output: Any = None


# What a condition comes to, by how the steps before ended: True, False or BROKEN.
Answer = Callable[[Mapping[str, End]], Any]


@dataclass(slots=True)
class Branches:
    """A random pipeline and the input of its run.

    Args:
        answers: of each condition, by its text.
        fails: the steps, and the items as (step, index), that fail.
        chooses: the successors that tasks choose.
    """

    spec: PipelineSpec
    input: dict[str, Any]
    answers: dict[str, Answer]
    fails: set[Any]
    chooses: dict[str, list[str]]


@dataclass(slots=True)
class Outcome:
    """How a run ends in the model, how its steps end, and how often each is called."""

    run_status: str
    ends: dict[str, End] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)


# --- the model --------------------------------------------------------------------------------------------


def outcome_of(branches: Branches, mode: str) -> Outcome:
    """What a run must come to. Under fail-fast the steps are those of a run that went on."""
    outcome = Outcome("")
    bad: set[str] = set()
    held = {
        member
        for step in branches.spec.steps
        if isinstance(step.decides, Gather)
        for member in step.decides.members
    }
    for step in _in_order(branches.spec):
        decision = _joined(step, {each: outcome.ends[each] for each in step.needs}, branches, mode)
        end = decision if decision is not None else _run(step, branches, outcome, mode)
        outcome.ends[step.id] = end
        if end.status in FAILED and not step.continue_on_error and step.id not in held:
            bad.add(step.id)
        broken_items = [key for key in branches.fails if isinstance(key, tuple) and key[0] == step.id]
        has_run = outcome.calls[step.id] > 0
        if has_run and broken_items and not step.continue_on_error and step.id not in held:
            bad.add(step.id)
    if not bad:
        outcome.run_status = "completed"
    else:
        outcome.run_status = "partial" if mode == "partial-merge" else "failed"
    return outcome


def _in_order(spec: PipelineSpec) -> Iterator[StepSpec]:
    """The steps, each after those before it."""
    ready = TopologicalSorter({each.id: each.needs for each in spec.steps})
    return (spec.by_id[each] for each in ready.static_order())


def _edge(step: StepSpec, end: End, before: StepSpec) -> str:
    """An edge is taken, not taken, or failed."""
    if end.status == "completed":
        return "taken" if end.chosen is None or step.id in end.chosen else "not taken"
    if end.status == "skipped":
        return {"condition": "taken", "failure": "failed", None: "not taken"}[end.cause]
    return "taken" if before.continue_on_error and end.status != "cancelled" else "failed"


def _joined(step: StepSpec, before: Mapping[str, End], branches: Branches, mode: str) -> End | None:
    """None if the step runs by its join rule."""
    if not before:
        return None
    edges = [_edge(step, end, branches.spec.by_id[each]) for each, end in before.items()]
    taken, has_failed = edges.count("taken"), "failed" in edges
    if step.join.takes_failures:
        is_reached = taken > 0 or has_failed or not step.join.needs_one
        return None if is_reached else End("skipped")
    if step.join.at_least is not None:
        runs = taken >= step.join.at_least
    elif has_failed:
        runs = mode == "partial-merge" and taken > 0
    else:
        runs = taken > 0
    return None if runs else End("skipped", "failure" if has_failed else None)


def _run(step: StepSpec, branches: Branches, outcome: Outcome, mode: str) -> End:
    if step.condition is not None:
        answer = branches.answers[step.condition](outcome.ends)
        if answer == BROKEN:
            return End("failed")
        if answer is not True:
            return End("skipped", "condition")
    match step.decides:
        case Choice() as choice:
            return _chosen(step, choice, branches, outcome)
        case Transform() as transform:
            return _transformed(transform, branches, outcome)
        case Gather() as gather:
            return _gathered(step, gather, branches, outcome, mode)
    return _called(step, branches, outcome, mode)


def _chosen(step: StepSpec, choice: Choice, branches: Branches, outcome: Outcome) -> End:
    after = {each.id for each in branches.spec.steps if step.id in each.needs}
    always = after - {each for case in choice.cases for each in case.next}
    for place, case in enumerate(choice.cases):
        answer = True if case.condition is None else branches.answers[case.condition](outcome.ends)
        if answer == BROKEN:
            return End("failed")
        if answer is True:
            return End("completed", None, frozenset(always | set(case.next)), place)
    return End("completed", None, frozenset(always))


def _transformed(transform: Transform, branches: Branches, outcome: Outcome) -> End:
    for each in transform.fail_if:
        if (answer := branches.answers[each.condition](outcome.ends)) is True or answer == BROKEN:
            return End("failed")
    return End("completed", output={"made": 1})


def _gathered(step: StepSpec, gather: Gather, branches: Branches, outcome: Outcome, mode: str) -> End:
    for member in gather.members:
        if outcome.ends[member].status in FAILED and not branches.spec.by_id[member].continue_on_error:
            return End("failed")
    before = [outcome.ends[each] for each in step.needs]
    goes_on = mode == "partial-merge" and any(each.status == "completed" for each in before)
    if any(each.cause == "failure" for each in before) and not goes_on:
        return End("skipped", "failure")
    return End("completed", output={each: outcome.ends[each].output for each in step.needs})


def _called(step: StepSpec, branches: Branches, outcome: Outcome, mode: str) -> End:
    if step.map is None:
        outcome.calls[step.id] += 1
        if step.id in branches.fails:
            return End("failed")
        chosen = branches.chooses.get(step.id)
        return End("completed", None, None if chosen is None else frozenset(chosen), {"of": step.id})
    count = len(branches.input["lists"][step.id])
    outcome.calls[step.id] += count
    failed = sum((step.id, each) in branches.fails for each in range(count))
    if failed and not (mode == "partial-merge" and failed < count):
        return End("failed")
    output = [None if (step.id, each) in branches.fails else {"of": step.id} for each in range(count)]
    return End("completed", output=output)


# --- pipelines --------------------------------------------------------------------------------------------


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps: list[StepSpec] = []
        self.input: dict[str, Any] = {"flags": {}, "lists": {}}
        self.answers: dict[str, Answer] = {}
        self.fails: set[Any] = set()
        self.chooses: dict[str, list[str]] = {}
        self.how_often_failing = chance.choice([0.0, 0.1, 0.25])
        self.width = chance.choice([1, 2, 3, 12])

    def make(self, id: str) -> Branches:
        chance = self.chance
        for number in range(chance.randint(2, 26)):
            self._add(f"s{number}")
        self._wire_choices()
        return Branches(
            PipelineSpec(id, tuple(self.steps)), self.input, self.answers, self.fails, self.chooses
        )

    def _add(self, id: str) -> None:
        chance, names = self.chance, [each.id for each in self.steps]
        count = min(len(names), chance.randint(0 if len(names) > 2 else 1, self.width))
        needs = tuple(sorted(chance.sample(names, count), key=names.index))
        rules: dict[str, Any] = {"join": self._join(len(needs)), "continue_on_error": chance.random() < 0.15}
        if chance.random() < 0.35:
            rules["condition"] = self._condition(id, needs, is_early=rules["join"].is_early)
        kind = chance.choices(["task", "map", "choice", "transform", "gather"], [10, 2, 2, 3, 1.5])[0]
        if kind == "gather" and not self._may_gather(needs):
            kind = "transform"
        self.steps.append(getattr(self, f"_{kind}")(id, needs, rules))

    def _join(self, needs: int) -> JoinRule:
        if needs < 2 or self.chance.random() < 0.6:
            return ALL
        return self.chance.choice([ALL_DONE, JoinRule(at_least=self.chance.randint(1, needs)), JoinRule(1)])

    # --- conditions ---------------------------------------------------------------------------------------

    def _condition(self, id: str, needs: tuple[str, ...], *, is_early: bool = False) -> str:
        if not needs or is_early or self.chance.random() < 0.5:
            return self._flag(id)
        before = self.chance.choice(needs)
        has_output = f"steps.{before}.of == '{before}'"
        ended_well = f"status.{before} == 'completed'"
        shapes: list[tuple[str, Answer]] = [
            (ended_well, lambda ends: ends[before].status == "completed"),
            (f"errors.{before} == null", lambda ends: ends[before].status not in ("failed", "timeout")),
        ]
        if self._is_task(before):
            shapes.append((has_output, lambda ends: ends[before].status == "completed"))
        text, answer = self.chance.choice(shapes)
        self.answers[text] = answer
        return text

    def _is_task(self, id: str) -> bool:
        [step] = [each for each in self.steps if each.id == id]
        return step.is_called

    def _flag(self, id: str) -> str:
        flag = f"f{len(self.input['flags'])}"
        value = self.chance.choices([True, False, None, "broken"], [6, 4, 1, 0.5])[0]
        self.input["flags"][flag] = value
        text = f"input.flags.{flag}"
        self.answers[text] = lambda ends: BROKEN if value == "broken" else value
        return text

    # --- kinds of steps -----------------------------------------------------------------------------------

    def _task(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        if self.chance.random() < self.how_often_failing:
            self.fails.add(id)
        return StepSpec(id, self.chance.choice(["act", "act", "act_limited"]), needs, **rules)

    def _map(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        count = self.chance.choice([0, 1, 3, 9])
        self.input["lists"][id] = list(range(count))
        if self.chance.random() < self.how_often_failing:
            self.fails |= {(id, each) for each in range(count) if self.chance.random() < 0.4}
        return StepSpec(id, "act", needs, map=MapSpec(f"${{input.lists.{id}}}"), **rules)

    def _transform(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        fail_if: tuple[FailIf, ...] = ()
        if self.chance.random() < self.how_often_failing:
            fail_if = (FailIf(self._flag(id), "WRONG", "it is ${input.flags.f0}"),)
        decides = Transform({"made": 1}, fail_if)
        return StepSpec(id, engine_task(decides), needs, decides=decides, **rules)

    def _choice(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        decides = Choice(())
        return StepSpec(id, engine_task(decides), needs, decides=decides, join=rules["join"])

    def _may_gather(self, needs: tuple[str, ...]) -> bool:
        return len(needs) > 1

    def _gather(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        decides = Gather(needs)
        return StepSpec(
            id,
            engine_task(decides),
            needs,
            decides=decides,
            join=SETTLED,
            continue_on_error=rules["continue_on_error"],
        )

    def _wire_choices(self) -> None:
        """Choices get cases, and tasks choose: all of them among the steps that directly follow."""
        for at, step in enumerate(self.steps):
            after = [each.id for each in self.steps if step.id in each.needs]
            if isinstance(step.decides, Choice):
                cases = self._cases(step, after)
                self.steps[at] = StepSpec(
                    **{name: getattr(step, name) for name in step.__slots__} | {"decides": Choice(cases)}
                )
            elif step.is_called and self.chance.random() < 0.2:
                self.chooses[step.id] = [each for each in after if self.chance.random() < 0.5]

    def _cases(self, step: StepSpec, after: list[str]) -> tuple[Case, ...]:
        count = self.chance.randint(1, 3)
        branches: list[list[str]] = [[] for _ in range(count + 1)]
        for each in after:
            self.chance.choice(branches).append(each)
        # What is in the last list is in no branch.
        cases = [Case(self._flag(step.id), tuple(each)) for each in branches[:count]]
        if count > 1 and self.chance.random() < 0.4:
            cases[-1] = Case(None, cases[-1].next)
        return tuple(cases)


def random_branches(chance: random.Random, id: str) -> Branches:
    """A random pipeline with its input, as its document is read: edges may be added to what was made."""
    while True:
        made = _Maker(chance).make(id)
        try:
            made.spec = parse_spec(made.spec.to_json())
        except InvalidSpec:
            continue
        return made
