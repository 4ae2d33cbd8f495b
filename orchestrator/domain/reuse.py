"""Decides what a rerun from a step reuses of the run before it (pure).

A step is *settled* when the new run comes to the same end of it without doing anything: it completed and is
reused, its condition was false and it is passed over again, or the choices of reused steps skip it again. A
step is reused, or passed over, if it ended so, is not the step that the rerun begins at, and each of its
predecessors is settled. So nothing behind the step is reused, nor
anything behind a step that failed: under partial-merge such a step completed without the output that the new
run may have. All other steps run anew, as in any run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pipeweave.orchestrator.domain.plan import Plan, PlannedStep
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.spec import Decision, Predecessor, StepSpec, references, rules


@dataclass(frozen=True, slots=True)
class OldStep:
    """How a step of the run before ended.

    Args:
        is_completed: whether it has an output that can be reused. A map of which an item did not complete has
            none: a map is reused as a whole, or not at all.
        selected_next: the successors that it chose; None for all.
        is_passed_over: whether it was skipped because its condition was false.
    """

    is_completed: bool
    selected_next: Collection[str] | None = None
    is_passed_over: bool = False


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a rerun from a step reuses.

    Args:
        steps: the ordinals of the reused steps, lowest first.
        is_skipped: whether the reused steps chose the step away that the rerun begins at: it would not run.
        passed_over: the ordinals of the steps whose conditions stay false, lowest first.
    """

    steps: tuple[int, ...]
    is_skipped: bool = False
    passed_over: tuple[int, ...] = ()


def decide(plan: Plan, mode: str, old: Mapping[str, OldStep], begin: str) -> Reuse:
    """Decide what is reused, in time linear in the steps and edges.

    Args:
        plan: of the new run.
        mode: the failure mode.
        old: by step id; a missing step did not complete.
        begin: the id of the step that the rerun begins at.
    """
    settled: dict[int, Predecessor] = {}
    reused: list[int] = []
    passed_over: list[int] = []
    is_skipped = False
    for ordinal in _in_order(plan):
        step = plan[ordinal]
        if any(each not in settled for each in step.predecessors):
            continue
        before = {plan[each].id: settled[each] for each in step.predecessors}
        if rules.decide_step(mode, before, step.id, step.step.join) is Decision.SKIP:
            settled[ordinal] = Predecessor("skipped")
            is_skipped = is_skipped or step.id == begin
        elif step.id == begin or (old_step := old.get(step.id)) is None:
            continue
        elif old_step.is_completed:
            settled[ordinal] = Predecessor("completed", old_step.selected_next)
            reused.append(ordinal)
        elif old_step.is_passed_over:
            settled[ordinal] = Predecessor("skipped", is_passed_over=True)
            passed_over.append(ordinal)
    return Reuse(tuple(sorted(reused)), is_skipped, tuple(sorted(passed_over)))


def _in_order(plan: Plan) -> Iterator[int]:
    """The ordinals of the steps, each after its predecessors."""
    missing = {each.ordinal: len(each.predecessors) for each in plan.steps}
    ready = [each for each, number in missing.items() if number == 0]
    while ready:
        ordinal = ready.pop()
        yield ordinal
        for after in plan[ordinal].successors:
            missing[after] -= 1
            if missing[after] == 0:
                ready.append(after)


def first_steps(plan: Plan, taken_over: Collection[int]) -> list[int]:
    """The steps that a rerun decides at its start: not reused, and with reused predecessors only, or none. An
    early join may go on by one of them.

    Args:
        taken_over: the ordinals of the steps that it reuses or passes over again.
    """
    there = frozenset(taken_over)
    return [
        each.ordinal
        for each in plan.steps
        if each.ordinal not in there and (there.issuperset(each.predecessors) or _may_go_on(each, there))
    ]


def _may_go_on(step: PlannedStep, reused: frozenset[int]) -> bool:
    return step.step.join.is_early and not reused.isdisjoint(step.predecessors)


def readers_of_input(plan: Plan, steps: Collection[int]) -> list[str]:
    """The ids of those steps that get the run's input: as a whole, or by references."""
    return [plan[each].id for each in sorted(steps) if _reads_input(plan, plan[each])]


def decided_by_input(plan: Plan, steps: Collection[int]) -> list[str]:
    """The ids of those steps whose conditions refer to the run's input."""
    conditions = ((each, plan.values[each].wanted) for each in sorted(steps))
    return [plan[each].id for each, wanted in conditions if _has_input(plan, wanted)]


def _reads_input(plan: Plan, step: PlannedStep) -> bool:
    if step.step.has_task and step.step.params is None:
        return True
    return _has_input(plan, _wanted(plan, step))


def _has_input(plan: Plan, wanted: Wanted) -> bool:
    by_variables = "variables" in wanted.roots and not references.compile_value(plan.variables).is_constant
    return "input" in wanted.roots or wanted.has_payload or by_variables


def _wanted(plan: Plan, step: PlannedStep) -> Wanted:
    """All that a step refers to."""
    params = None if step.step.params is None else dict(step.step.params)
    named = references.compile_value({"params": params, "over": step.step.over}).references
    wanted = Wanted.of(named)
    for place, _ in step.step.bodies:
        wanted |= plan.around[place]
    return wanted | plan.values[step.ordinal].wanted if step.ordinal in plan.values else wanted


def same_steps(old: Plan, new: Plan) -> frozenset[str]:
    """The ids of the steps that two versions have alike: task, params, map and predecessors, the rules of the
    step, and the variables if it refers to them.
    """
    before = {each.id: each.step for each in old.steps}
    alike = [each for each in new.steps if each.id in before and _is_same(before[each.id], each.step)]
    if old.variables != new.variables:
        alike = [each for each in alike if "variables" not in _wanted(new, each).roots]
    return frozenset(each.id for each in alike)


def _is_same(one: StepSpec, other: StepSpec) -> bool:
    return one.to_json() | {"needs": set(one.needs)} == other.to_json() | {"needs": set(other.needs)}


def lost_steps(old: Plan, new: Plan, reused: Collection[int], begin: str) -> list[str]:
    """The ids of reused steps that another version lacks or has changed.

    Args:
        reused: ordinals of the old plan.
        begin: the step that the rerun begins at; what is behind it in the new plan runs anew anyway.
    """
    anew = _behind(new, begin)
    kept = same_steps(old, new) | {new[each].id for each in anew}
    return [old[each].id for each in sorted(reused) if old[each].id not in kept]


def _behind(plan: Plan, begin: str) -> set[int]:
    ordinals = {plan.ordinals[begin]}
    stack = list(ordinals)
    while stack:
        after = set(plan[stack.pop()].successors) - ordinals
        ordinals |= after
        stack += after
    return ordinals
