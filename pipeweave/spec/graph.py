"""Build a pipeline's graph (order, levels, neighbours), check it, and compute a dry run. Pure.

Everything is linear in steps and edges and does not recurse, because users' specs may have 5,000 steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from pipeweave.errors import InvalidSpec
from pipeweave.size_limits import MAX_EDGES, MAX_STEPS
from pipeweave.spec.edges import Edges, find_cycles, parts, reachable, successors_of, topological_order
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.joins import ALL_DONE
from pipeweave.spec.pipeline_spec import PipelineSpec
from pipeweave.spec.rules import FAIL_FAST
from pipeweave.spec.unknown_tasks import unknown_tasks
from pipeweave.suggestions import nearest

_DEEP = 20
_SHOWN = 20
_MOST_ERRORS = 100


class Graph:
    """The steps of a valid spec and their edges.

    Attributes:
        predecessors: the predecessors of each step, in the order of its `needs`.
        successors: the successors of each step, in document order.
        order: all steps, each after its predecessors; in lexical order among those that could come next.

    Raises:
        InvalidSpec: the steps hold a cycle, a duplicate or an unknown predecessor.
    """

    def __init__(self, spec: PipelineSpec) -> None:
        self.id = spec.id
        self.predecessors: Edges = {step.id: tuple(dict.fromkeys(step.needs)) for step in spec.steps}
        if len(self.predecessors) < len(spec.steps):
            raise InvalidSpec(f"pipeline {spec.id!r} has several steps with the same id")
        self.successors: Edges = successors_of(self.predecessors)
        if len(self.successors) > len(self.predecessors):
            unknown = sorted(self.successors.keys() - self.predecessors.keys())
            raise InvalidSpec(f"pipeline {spec.id!r} needs steps it does not have: {', '.join(unknown[:10])}")
        self.order: tuple[str, ...] = topological_order(self.predecessors, self.successors)
        if len(self.order) < len(self.predecessors):
            raise InvalidSpec(f"pipeline {spec.id!r} has a cycle")

    @cached_property
    def level_of(self) -> Mapping[str, int]:
        """The level of each step: the number of edges on the longest path to it from an entry step."""
        levels: dict[str, int] = {}
        for step in self.order:
            levels[step] = 1 + max((levels[each] for each in self.predecessors[step]), default=-1)
        return levels

    @cached_property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The steps by level, each level in lexical order. Steps of one level do not wait for each other."""
        levels: list[list[str]] = [[] for _ in range(max(self.level_of.values(), default=-1) + 1)]
        for step, level in self.level_of.items():
            levels[level].append(step)
        return tuple(tuple(sorted(level)) for level in levels)

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """The steps without predecessors, in document order."""
        return tuple(step for step, needs in self.predecessors.items() if not needs)

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """The steps without successors, in document order."""
        return tuple(step for step in self.predecessors if not self.successors[step])

    @cached_property
    def joins(self) -> tuple[str, ...]:
        """The steps with several predecessors, in document order."""
        return tuple(step for step, needs in self.predecessors.items() if len(needs) > 1)

    def ancestors(self, step: str) -> frozenset[str]:
        """All steps before this step, direct and indirect."""
        return reachable(step, self.predecessors)

    def descendants(self, step: str) -> frozenset[str]:
        """All steps after this step, direct and indirect."""
        return reachable(step, self.successors)


class KnownTask(Protocol):
    """The attributes of a task that a dry run reads; `concurrency` is how many may run at once, 0 for any."""

    @property
    def concurrency(self) -> int: ...


def validate_graph(spec: PipelineSpec) -> list[GraphError]:
    """List every error that keeps a run of the spec from working; empty if the graph is valid."""
    ids = [step.id for step in spec.steps]
    edges = sum(len(step.needs) for step in spec.steps)
    if not ids:
        return [GraphError("NO_ENTRY", "the pipeline has no steps")]
    if len(ids) > MAX_STEPS or edges > MAX_EDGES:
        counted = f"{len(ids)} steps and {edges} edges"
        limit = f"at most {MAX_STEPS} and {MAX_EDGES} are allowed"
        return [GraphError("TOO_MANY_STEPS", f"the pipeline has {counted}: {limit}")]
    errors = [
        GraphError("DUPLICATE_STEP", f"{count} steps have the id {step!r}", (step,))
        for step, count in Counter(ids).items()
        if count > 1
    ]
    predecessors = {step.id: tuple(dict.fromkeys(step.needs)) for step in spec.steps}
    errors += islice(_unknown_steps(predecessors), _MOST_ERRORS)
    if all(predecessors.values()):
        errors.append(
            GraphError("NO_ENTRY", "every step needs another step, so none can start", tuple(ids[:_SHOWN]))
        )
    errors += [
        GraphError("CYCLE", f"the steps wait for each other: {' → '.join(cycle)}", cycle)
        for cycle in find_cycles(predecessors)
    ]
    return errors + [error for body in spec.bodies.values() for error in validate_graph(body)]


def _unknown_steps(predecessors: Edges) -> Iterator[GraphError]:
    for step, needs in predecessors.items():
        for each in needs:
            if each not in predecessors:
                near = _near(each, predecessors)
                yield GraphError(
                    "UNKNOWN_STEP", f"step {step!r} needs {each!r}, which is not a step{near}", (step, each)
                )


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One level of the graph: steps that do not wait for each other.

    Args:
        step: 0-based number of the level.
        tasks: ids of its steps, in lexical order.
        type: `entry`, `join` (at least one of its steps has several predecessors), `parallel`, `map` (its
            one step is a map), `step` or `end`.
        joins: the predecessors of each of its steps that has several.
        maps: its steps that are expanded over a list.
    """

    step: int
    tasks: tuple[str, ...]
    type: str
    joins: Mapping[str, tuple[str, ...]]
    maps: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"step": self.step, "tasks": list(self.tasks), "type": self.type}
        if self.joins:
            shown["waitsFor"] = sorted({each for needs in self.joins.values() for each in needs})
            shown["joins"] = {step: list(needs) for step, needs in self.joins.items()}
        if self.maps:
            shown["maps"] = list(self.maps)
        return shown


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of a dry run: the plan, or the errors that keep the pipeline from running."""

    errors: tuple[GraphError, ...]
    warnings: tuple[GraphError, ...]
    plan: tuple[PlanEntry, ...]

    @property
    def valid(self) -> bool:
        return not self.errors

    def to_json(self) -> dict[str, Any]:
        return {
            "valid": self.valid,
            "errors": [each.to_json() for each in self.errors],
            "warnings": [each.to_json() for each in self.warnings],
            "executionPlan": [each.to_json() for each in self.plan],
        }


def dry_run(
    spec: PipelineSpec, tasks: Mapping[str, KnownTask] | None = None, names: Collection[str] | None = None
) -> DryRun:
    """Check a pipeline and plan its levels without running it.

    Args:
        spec: the pipeline's spec; it may be invalid.
        tasks: the known tasks by id; None to skip the checks of tasks.
        names: of further known tasks, for suggestions; by default those of `tasks`.
    """
    errors = validate_graph(spec)
    unknown = [] if tasks is None else unknown_tasks(spec, tasks, tasks if names is None else names)
    errors_of_tasks = [each.as_graph_error() for each in unknown]
    if errors:
        return DryRun((*errors, *errors_of_tasks), (), ())
    graph = Graph(spec)
    warnings = tuple(_warnings(spec, graph, tasks or {}))
    return DryRun(tuple(errors_of_tasks), warnings, tuple(_plan(spec, graph)))


def _plan(spec: PipelineSpec, graph: Graph) -> Iterator[PlanEntry]:
    mapped = {step.id for step in spec.steps if step.map is not None}
    last = len(graph.levels) - 1
    for number, level in enumerate(graph.levels):
        joins = {step: graph.predecessors[step] for step in level if len(graph.predecessors[step]) > 1}
        maps = tuple(step for step in level if step in mapped)
        alone = "map" if maps else "step"
        kind = "entry" if number == 0 else "join" if joins else "parallel" if len(level) > 1 else alone
        kind = "end" if number == last else kind
        yield PlanEntry(number, level, kind, joins, maps)


def _warnings(spec: PipelineSpec, graph: Graph, tasks: Mapping[str, KnownTask]) -> Iterator[GraphError]:
    groups = parts(graph.predecessors)
    if len(groups) > 1:
        shown = ", ".join(f"{part[0]} ({len(part)})" for part in groups[:_SHOWN])
        yield GraphError(
            "DISCONNECTED",
            f"the pipeline has {len(groups)} parts that no edge connects (first step, size): {shown}",
            tuple(part[0] for part in groups[:_SHOWN]),
        )
    if len(graph.levels) > _DEEP:
        yield GraphError(
            "DEPTH_OVER_20", f"the longest path through the pipeline has {len(graph.levels)} steps"
        )
    task_of = {step.id: step.task for step in spec.steps if step.has_task}
    for level in graph.levels:
        for task, count in Counter(task_of[step] for step in level if step in task_of).items():
            limit = tasks[task].concurrency if task in tasks else 0
            if 0 < limit < count:
                yield GraphError(
                    "CONCURRENCY_LIMIT",
                    f"{count} steps of one level run task {task!r}, of which {limit} may run at once",
                    tuple(step for step in level if task_of.get(step) == task),
                )
    for step in spec.steps:
        limit = tasks[step.task].concurrency if step.map is not None and step.task in tasks else 0
        if limit > 0:
            yield GraphError(
                "CONCURRENCY_LIMIT",
                f"the items of map {step.id!r} run task {step.task!r}, of which {limit} may run at once",
                (step.id,),
            )
    if spec.failure_mode == FAIL_FAST:
        for step in spec.steps:
            if step.join == ALL_DONE:
                yield GraphError(
                    "JOIN_SEES_NO_FAILURE",
                    f"step {step.id!r} has `join: all-done`, but the first failure ends the run before it: "
                    f"use failureMode continue, or continueOnError at its predecessors",
                    (step.id,),
                )


def _near(wrong: str, known: Iterable[str]) -> str:
    near = nearest(wrong, known)
    return f" (did you mean {near!r}?)" if near is not None else ""
