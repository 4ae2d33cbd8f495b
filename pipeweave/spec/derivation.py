"""Derive pipelines from the `allowed_next` options of tasks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from pipeweave.errors import FieldError, InvalidSpec
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec.edges import find_cycles, reachable, successors_of, topological_order
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.suggestions import did_you_mean

_MOST_ERRORS = 100
_MOST_HINTS = 10
# An error names at most so many of the known tasks.
_MOST_NAMED = 5


class LinkedTask(Protocol):
    """The attributes of a task that `derive` reads."""

    @property
    def id(self) -> str: ...
    @property
    def allowed_next(self) -> tuple[str, ...]: ...
    @property
    def description(self) -> str | None: ...


def derive(tasks: Iterable[LinkedTask]) -> list[PipelineSpec]:
    """Build the pipelines that the tasks' `allowed_next` describe.

    Each task that has successors and no predecessor gives one pipeline of its name. The steps of that
    pipeline are the tasks that can be reached from it, one step per task, without params. A task without
    successors and predecessors gives no pipeline; it is queued as a standalone task.

    Raises:
        InvalidSpec: `allowed_next` names an unknown task, or tasks follow each other in a cycle.
    """
    by_id = {task.id: task for task in tasks}
    _refuse_unknown(by_id)
    successors = {id: tuple(dict.fromkeys(task.allowed_next)) for id, task in by_id.items()}
    predecessors = successors_of(successors)
    cycles = find_cycles(predecessors)
    if cycles:
        listing = "; ".join(" → ".join(cycle) for cycle in cycles)
        raise InvalidSpec(
            f"allowed_next forms a cycle: {listing}",
            errors=[FieldError("allowedNext", " → ".join(cycle), "cycle") for cycle in cycles],
            graphErrors=[{"code": "CYCLE", "message": " → ".join(c), "steps": list(c)} for c in cycles],
        )
    order = topological_order(predecessors, successors)
    entries = sorted(id for id, after in successors.items() if after and not predecessors[id])
    return [_pipeline(by_id[entry], successors, predecessors, order) for entry in entries]


def _pipeline(
    entry: LinkedTask,
    successors: dict[str, tuple[str, ...]],
    predecessors: dict[str, tuple[str, ...]],
    order: tuple[str, ...],
) -> PipelineSpec:
    members = reachable(entry.id, successors) | {entry.id}
    if len(members) > MAX_STEPS:
        raise InvalidSpec(f"pipeline {entry.id!r} has {len(members)} steps, at most {MAX_STEPS} are allowed")
    place = {id: number for number, id in enumerate(order)}
    steps = tuple(
        StepSpec(
            id=id,
            task=id,
            needs=tuple(
                sorted((each for each in predecessors[id] if each in members), key=place.__getitem__)
            ),
        )
        for id in sorted(members, key=place.__getitem__)
    )
    return PipelineSpec(id=entry.id, steps=steps, description=entry.description)


def _some(known: Iterable[str]) -> str:
    """Some of the known tasks, for an error."""
    names = list(islice(known, _MOST_NAMED + 1))
    return f"the tasks are {', '.join(names[:_MOST_NAMED])}{', …' if len(names) > _MOST_NAMED else ''}"


def _refuse_unknown(by_id: dict[str, LinkedTask]) -> None:
    errors: list[FieldError] = []
    graph_errors: list[GraphError] = []
    for task in by_id.values():
        for number, each in enumerate(task.allowed_next):
            if each in by_id or len(errors) == _MOST_ERRORS:
                continue
            hint = did_you_mean(each, by_id, _some(by_id)) if len(errors) < _MOST_HINTS else ""
            field = f"tasks.{task.id}.allowedNext[{number}]"
            why = f"{each!r} is not a task{hint and '; ' + hint}"
            errors.append(FieldError(field, why, "unknown_task"))
            graph_errors.append(GraphError("UNKNOWN_TASK", f"{field} {why}", (task.id, each)))
    if errors:
        shown = [each.to_json() for each in graph_errors]
        raise InvalidSpec(f"{errors[0].field}: {errors[0].message}", errors=errors, graphErrors=shown)
