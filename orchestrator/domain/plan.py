"""Compiles a pipeline version into a plan: steps by ordinal, and the kind of each join.

Pure, and done once per process and version. Ordinals number the steps from 1 in the order in which the
version has them (spec/numbering.py); they are the last bits of the ids of the steps' task runs. Ordinal 0
stands for the end of the run: a join of all end steps.
"""

from __future__ import annotations

import bisect
import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipeweave import error_kinds
from pipeweave.option_checks import PAUSE
from pipeweave.orchestrator.domain import step_classes
from pipeweave.orchestrator.domain.states import FAILED_TASK
from pipeweave.orchestrator.domain.step_values import StepValues, Wanted, wanted_around
from pipeweave.spec import (
    ALL,
    CHILD_TASKS,
    DEFAULT_FINALLY_MS,
    PINNED,
    Body,
    ChildCall,
    ErrorRule,
    Gather,
    PipelineSpec,
    StepSpec,
    error_rules,
)
from pipeweave.spec.references import compile_value
from pipeweave.spec.rules import FAILS_RUN, ItemFailure

# The end of the run, as if it were a step.
END = 0
# The code of a map whose items failed: they are counted themselves.
MAP_ITEMS_FAILED = "MAP_ITEMS_FAILED"
# A join with this many predecessors or more has a chord: a row that every predecessor locks would be the
# bottleneck of the run, a counter in Redis is not.
WIDE = 8
# A step with more successors is a fan-out: they are released in bulk.
MOST_SUCCESSORS = 8


class JoinKind(Enum):
    """How a step learns that its predecessors are final."""

    SINGLE = "single"  # one predecessor: the transaction that completes it releases the step
    NARROW = "narrow"  # a few: each transaction that completes one reads all, with the step's row locked
    GATHERED = "gathered"  # many that become ready together: a chord with a part per message
    IRREGULAR = "irregular"  # many that become ready at different times: a chord with a part per predecessor

    @property
    def is_wide(self) -> bool:
        return self in (JoinKind.GATHERED, JoinKind.IRREGULAR)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step with its place in the graph, as ordinals."""

    ordinal: int
    step: StepSpec
    predecessors: tuple[int, ...]
    successors: tuple[int, ...]

    @property
    def id(self) -> str:
        return self.step.id


@dataclass(frozen=True)
class Plan:
    """A compiled pipeline version.

    Args:
        ends: the steps that nothing follows: the output of a run is made of their outputs.
        awaited: the steps that the end of a run waits for: the completion of the last of them ends it.
        joins: how each step with predecessors, and the end of the run, learns that they are final.
        is_pinned: whether its runs keep the code that their tasks had when they began.
        variables: the pipeline's variables, as they are written.
        error_rules: the pipeline's rules for errors; steps may have one of their own.
        finally_call: what runs at the end of its runs; None for nothing.
        finally_ms: how long all that follows the last step may take together (ms).
        own_bodies: the bodies beside the steps, by their places.
        on_exhausted: what the pipeline says of steps without an attempt left; None: nothing.
    """

    steps: tuple[PlannedStep, ...]
    ends: tuple[int, ...]
    awaited: tuple[int, ...]
    joins: dict[int, JoinKind]
    is_pinned: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)
    error_rules: tuple[ErrorRule, ...] = ()
    finally_call: ChildCall | None = None
    finally_ms: int = DEFAULT_FINALLY_MS
    own_bodies: tuple[tuple[str, Body], ...] = ()
    on_exhausted: str | None = None

    @functools.cached_property
    def classes(self) -> dict[str, list[int]]:
        """The ordinals of the steps of each class, by its key; see `step_classes`."""
        kinds = [f"{'map/' if each.step.has_items else ''}{each.step.task}" for each in self.steps]
        links = [(before - 1, each.ordinal - 1) for each in self.steps for before in each.predecessors]
        classes = step_classes.classes_of(kinds, links)
        return {key: [at + 1 for at in members] for key, members in classes.items()}

    @functools.cached_property
    def plain(self) -> frozenset[int]:
        """The steps that run a task once all their predecessors completed and chose them; END is one, too."""
        return frozenset({END, *(each.ordinal for each in self.steps if each.step.is_plain)})

    @functools.cached_property
    def waiting_for_values(self) -> frozenset[int]:
        """The steps that values decide about when their predecessors let them run; see `engine/acting.py`."""
        return frozenset(each.ordinal for each in self.steps if each.step.waits_for_values)

    @functools.cached_property
    def has_children(self) -> bool:
        """Whether other runs may belong to its runs: those of steps, of their errors and of the end."""
        if self.has_error_rules or self.has_ending:
            return True
        return any(each.step.task in CHILD_TASKS for each in self.steps)

    @functools.cached_property
    def has_error_rules(self) -> bool:
        """Whether the failure of some step may be taken care of."""
        return bool(self.error_rules) or any(each.step.on_error is not None for each in self.steps)

    def rule_for(self, step_id: str, error: Mapping[str, Any]) -> str | None:
        """The name of the rule that takes care of the error of a step; None if no rule does.

        Args:
            error: as an expression sees it.
        """
        return error_rules.fitting(
            self[self.ordinals[step_id]].step, self.error_rules, self._constants, error
        )

    def rule_named(self, step_id: str, name: str) -> ErrorRule:
        """The rule of this name, which `rule_for` gave."""
        return error_rules.named(self[self.ordinals[step_id]].step, self.error_rules, name)

    @functools.cached_property
    def _constants(self) -> Mapping[str, Any]:
        return error_rules.constants_of(self.variables)

    @functools.cached_property
    def handled_maps(self) -> frozenset[int]:
        """The maps whose failed items a rule takes care of, all together: none of them ends the run."""
        if not self.has_error_rules:
            return frozenset()
        maps = [each for each in self.steps if each.step.has_items]
        return frozenset(
            each.ordinal
            for each in maps
            if self.rule_for(each.id, error_kinds.as_seen(each.id, MAP_ITEMS_FAILED, None, 1)) is not None
        )

    @functools.cached_property
    def compensated(self) -> frozenset[int]:
        """The steps that are taken back if they had completed, and the run ends badly."""
        return frozenset(each.ordinal for each in self.steps if each.step.compensate is not None)

    @functools.cached_property
    def has_ending(self) -> bool:
        """Whether something may follow the last step of a run."""
        return self.finally_call is not None or bool(self.compensated)

    @functools.cached_property
    def ruled(self) -> frozenset[int]:
        """The steps with another join rule than `all`."""
        return frozenset(each.ordinal for each in self.steps if each.step.join != ALL)

    @functools.cached_property
    def conditional(self) -> frozenset[int]:
        """The steps that are plain once their condition is true. Those that compute labels are not."""
        return frozenset(
            each.ordinal
            for each in self.steps
            if each.step.is_called
            and each.step.condition is not None
            and each.step.join == ALL
            and not each.step.computes_labels
        )

    @functools.cached_property
    def values(self) -> Mapping[int, StepValues]:
        """What each of `waiting_for_values` evaluates."""
        return {each: StepValues.of(self[each].step) for each in self.waiting_for_values}

    @functools.cached_property
    def params(self) -> Mapping[int, Wanted]:
        """The values that the params of each step refer to."""
        with_params = [each for each in self.steps if each.step.params is not None]
        return {each.ordinal: Wanted.of(compile_value(each.step.params).references) for each in with_params}

    @functools.cached_property
    def around(self) -> Mapping[str, Wanted]:
        """The values that each body refers to and that are not its own, by the place of the body."""
        bodies = [body for each in self.steps for body in each.step.bodies]
        bodies += self.own_bodies
        return {place: wanted_around(body.steps) for place, body in bodies}

    @functools.cached_property
    def nearest_task(self) -> Mapping[int, str | None]:
        """For each step without a task, that of the nearest step that has one, by number: messages
        about the step go to its queue. None where no step has a task.
        """
        with_task = [each.ordinal for each in self.steps if each.step.has_task]
        without = [each.ordinal for each in self.steps if not each.step.has_task]
        return {each: self._nearest(with_task, each) for each in without}

    def _nearest(self, with_task: list[int], ordinal: int) -> str | None:
        at = bisect.bisect(with_task, ordinal)
        around = with_task[max(0, at - 1) : at + 1]
        nearest = min(around, key=lambda each: abs(each - ordinal), default=None)
        return None if nearest is None else self[nearest].step.task

    @functools.cached_property
    def tolerated(self) -> frozenset[int]:
        """The steps whose failure is passed over."""
        return frozenset(each.ordinal for each in self.steps if each.step.continue_on_error)

    @functools.cached_property
    def held(self) -> frozenset[int]:
        """The steps whose failure does not end the run by itself: a gather behind them tells of it."""
        gathers = (each.step.decides for each in self.steps)
        members = {id for each in gathers if isinstance(each, Gather) for id in each.members}
        return frozenset(self.ordinals[each] for each in members)

    @functools.cached_property
    def excused(self) -> frozenset[str]:
        """The ids of the steps of which a failure ends no run by itself, and is none for the run's status."""
        return frozenset(self[each].id for each in self.tolerated | self.held)

    def pauses(self, ordinal: int, by_task: str | None) -> bool:
        """Whether the run is paused when a step, or an item of a map, has no attempt left. A step says it,
        else the pipeline, else its task. What is tolerated, or what its map settles, pauses nothing.

        Args:
            ordinal: of the step; of the map for an item.
            by_task: what its task says; None: nothing.
        """
        step = self[ordinal].step
        if step.on_exhausted is None and (step.continue_on_error or ordinal in self.settling):
            return False
        return (step.on_exhausted or self.on_exhausted or by_task) == PAUSE

    @functools.cached_property
    def may_pause(self) -> bool:
        """Whether the pipeline or a step of it says so; a task may say it, too."""
        return PAUSE in (self.on_exhausted, *(each.step.on_exhausted for each in self.steps))

    def passes_over(self, ordinal: int, status: str) -> bool:
        """Whether a step that ended so is passed over because its failure is tolerated."""
        return ordinal in self.tolerated and status in FAILED_TASK

    @functools.cached_property
    def settling(self) -> Mapping[int, ItemFailure]:
        """The maps of which a failed item ends no run by itself, with their rules."""
        rules = {each.ordinal: each.step.item_failure for each in self.steps}
        return {ordinal: rule for ordinal, rule in rules.items() if rule != FAILS_RUN}

    def is_excused(self, ordinal: int, status: str, *, is_item: bool) -> bool:
        """Whether a step, or an item of a map, that ended so does not end the run by itself.

        Args:
            ordinal: of the step; of the map for an item.
        """
        if is_item and (ordinal in self.settling or ordinal in self.handled_maps):
            return True
        return ordinal in self.held or self.passes_over(ordinal, status)

    @functools.cached_property
    def levels(self) -> dict[int, int]:
        """The longest way from a step without predecessors to each step, in steps, by ordinal."""
        levels: dict[int, int] = {}
        missing = {each.ordinal: len(each.predecessors) for each in self.steps}
        ready = [ordinal for ordinal, count in missing.items() if not count]
        while ready:
            ordinal = ready.pop()
            step = self[ordinal]
            levels[ordinal] = max((levels[each] + 1 for each in step.predecessors), default=0)
            for each in step.successors:
                missing[each] -= 1
                if not missing[each]:
                    ready.append(each)
        return levels

    def __getitem__(self, ordinal: int) -> PlannedStep:
        return self.steps[ordinal - 1]

    def predecessors(self, ordinal: int) -> tuple[int, ...]:
        """The ordinals a step, or the end of the run, waits for."""
        return self.awaited if ordinal == END else self[ordinal].predecessors

    def successors(self, ordinal: int) -> tuple[int, ...]:
        """The ordinals that wait for a step: END when no step does, or when one of them may not wait."""
        return self._successors[ordinal]

    @functools.cached_property
    def _successors(self) -> Mapping[int, tuple[int, ...]]:
        left_open = frozenset(self.awaited) - frozenset(self.ends)
        return {
            each.ordinal: (*each.successors, END) if each.ordinal in left_open else each.successors or (END,)
            for each in self.steps
        }

    def are_released_at_once(self, ordinal: int, chosen: Collection[int] = ()) -> bool:
        """Whether one statement can decide the successors of a step that completed.

        Args:
            chosen: those whose conditions are known to be true: they are like plain steps.
        """
        if ordinal in self._simply_followed:
            return True
        return bool(chosen) and self._are_simple(self.successors(ordinal), chosen)

    @functools.cached_property
    def _simply_followed(self) -> frozenset[int]:
        return frozenset(each for each, after in self._successors.items() if self._are_simple(after))

    def _are_simple(self, successors: Sequence[int], chosen: Collection[int] = ()) -> bool:
        if len(successors) > MOST_SUCCESSORS or any(self.joins[each].is_wide for each in successors):
            return False
        if successors == (END,):
            return not self.has_ending
        plain = self.plain
        return all((each in plain or each in chosen) and not self.gathered(each) for each in successors)

    @functools.cached_property
    def entries(self) -> tuple[int, ...]:
        return tuple(each.ordinal for each in self.steps if not each.predecessors)

    @functools.cached_property
    def entry_tasks(self) -> tuple[str, ...]:
        """The tasks of the entry steps."""
        entries = [self[each].step for each in self.entries]
        return tuple(each.task for each in entries if each.has_task)

    @functools.cached_property
    def queued_tasks(self) -> tuple[str, ...]:
        """The tasks of the entry steps that are called as soon as nothing holds them back."""
        entries = [self[each].step for each in self.entries]
        return tuple(each.task for each in entries if each.is_called and not each.waits_for_values)

    @functools.cached_property
    def ordinals(self) -> dict[str, int]:
        """Step id -> ordinal."""
        return {each.id: each.ordinal for each in self.steps}

    @functools.cached_property
    def specs(self) -> Mapping[str, StepSpec]:
        """Step id -> step."""
        return {each.id: each.step for each in self.steps}

    def ancestors(self, step_id: str) -> list[str]:
        """The ids of the steps that precede a step, however far, in the order of their numbers."""
        ancestors: dict[int, None] = {}
        # It grows while it is read. Each dispatch asks, so no function is called for each ancestor.
        before = list(self[self.ordinals[step_id]].predecessors)
        for each in before:
            if each not in ancestors:
                ancestors[each] = None
                before += self.steps[each - 1].predecessors
        return [self.steps[each - 1].step.id for each in sorted(ancestors)]

    def gathered(self, ordinal: int) -> tuple[int, ...]:
        """The gathered joins behind this step."""
        return tuple(j for j in self.successors(ordinal) if self.joins.get(j) is JoinKind.GATHERED)

    def countable(self, ordinals: Iterable[int], joins: Iterable[int]) -> tuple[int, ...]:
        """Those of `joins`, each once, for which a message with these task runs may count: the gathered joins
        behind its steps, and maps, whose items have ordinals beyond those of the steps.
        """
        steps = len(self.steps)
        gathered = {join for each in ordinals if 0 < each <= steps for join in self.gathered(each)}
        return tuple(
            each
            for each in dict.fromkeys(joins)
            if each in gathered or (0 < each <= steps and self[each].step.has_items)
        )


def standalone_plan(task_id: str) -> Plan:
    """The plan of a standalone task: one step, named like its task."""
    return compile_plan(PipelineSpec(id=task_id, steps=(StepSpec(task_id, task_id),)))


def compile_plan(spec: PipelineSpec) -> Plan:
    """The plan of a valid spec, in time linear in its steps and edges."""
    ordinals = {step.id: number for number, step in enumerate(spec.steps, start=1)}
    predecessors = {
        number: tuple(ordinals[need] for need in step.needs) for number, step in enumerate(spec.steps, 1)
    }
    successors: dict[int, list[int]] = defaultdict(list)
    for number, before in predecessors.items():
        for each in before:
            successors[each].append(number)
    steps = tuple(
        PlannedStep(number, step, predecessors[number], tuple(successors[number]))
        for number, step in enumerate(spec.steps, start=1)
    )
    ends = tuple(each.ordinal for each in steps if not each.successors)
    # All steps before an end step are final before it is, but for those that an early join did not wait for.
    early = {before for step in steps if step.step.join.is_early for before in step.predecessors}
    awaited = tuple(sorted({*ends, *early}))
    waits_for = {number: before for number, before in predecessors.items() if before} | {END: awaited}
    by_message = {step.ordinal for step in steps if step.step.has_task and not step.step.waits_for_values}
    joins = {number: _kind(before, predecessors, by_message) for number, before in waits_for.items()}
    early_joins = {step.ordinal for step in steps if step.step.join.is_early and step.predecessors}
    joins |= dict.fromkeys(early_joins, JoinKind.NARROW)
    return Plan(
        steps,
        ends,
        awaited,
        joins,
        spec.code == PINNED,
        spec.variables,
        spec.error_rules,
        spec.finally_call,
        spec.finally_timeout_ms or DEFAULT_FINALLY_MS,
        tuple(spec.own_bodies),
        spec.on_exhausted,
    )


def _kind(
    before: tuple[int, ...], predecessors: dict[int, tuple[int, ...]], by_message: set[int]
) -> JoinKind:
    if len(before) == 1:
        return JoinKind.SINGLE
    if len(before) < WIDE:
        return JoinKind.NARROW
    first = predecessors[before[0]]
    # All of them have the same single predecessor, or none: one commit makes all of them ready. A step that
    # may end without a message is a part of its own.
    are_alike = len(first) <= 1 and all(predecessors[each] == first for each in before)
    return JoinKind.GATHERED if are_alike and by_message.issuperset(before) else JoinKind.IRREGULAR
