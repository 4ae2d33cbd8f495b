"""Says of a task that nobody has registered what is wrong with its name (pure).

A task `adapter.action` whose adapter has no task at all is the fault of the adapter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from pipeweave.errors import FieldError
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.suggestions import nearest

# The tasks that PipeWeave brings, their adapters, and what runs them.
BUILT_IN_TASKS = frozenset(
    {
        "celery.call",
        "celery.send",
        "http.request",
        "log.write",
        "storage.delete",
        "storage.get",
        "storage.list",
        "storage.put",
        "webhook.hand_off",
        "webhook.send",
    }
)
BUILT_IN_ADAPTERS = frozenset(each.partition(".")[0] for each in BUILT_IN_TASKS)
HOW_TO_RUN_THEM = "pipeweave worker --app pipeweave.adapters"

_MOST_ERRORS = 100
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class UnknownTask:
    """A step whose task nobody has registered.

    Args:
        field: of the step's task.
        code: `unknown_task`, or `adapter_not_found`.
        near: the nearest name of a task, else of an adapter; None if none is near.
    """

    field: str
    message: str
    code: str
    near: str | None
    step: str

    def as_field_error(self) -> FieldError:
        return FieldError(self.field, self.message, self.code, self.near)

    def as_graph_error(self) -> GraphError:
        return GraphError(self.code.upper(), self.message, (self.step,))


def unknown_tasks(spec: PipelineSpec, known: Collection[str], names: Collection[str]) -> list[UnknownTask]:
    """The steps whose task nobody has registered, those of bodies among them, at most 100.

    Args:
        known: those of its tasks that are registered.
        names: of tasks that are registered, for suggestions.
    """
    unknown = (each for each in spec.all_steps if each[1].has_task and each[1].task not in known)
    return [_explained(f"{place}.task", step, names) for place, step in islice(unknown, _MOST_ERRORS)]


def _explained(field: str, step: StepSpec, names: Collection[str]) -> UnknownTask:
    adapter, _, action = step.task.rpartition(".")
    problem = f"step {step.id!r} runs task {step.task!r}, which no service has registered"
    if not adapter:
        return _unknown_task(field, step, problem, nearest(step.task, names))
    actions = [each.rpartition(".")[2] for each in names if each.rpartition(".")[0] == adapter]
    if actions:
        near = nearest(action, actions)
        more = f"; its actions are {_listed(actions)}"
        near_task = None if near is None else f"{adapter}.{near}"
        return _unknown_task(field, step, problem + ("" if near else more), near_task)
    return _no_adapter(field, step, problem, names)


def _unknown_task(field: str, step: StepSpec, problem: str, near: str | None) -> UnknownTask:
    return UnknownTask(field, problem + _hint(near), "unknown_task", near, step.id)


def _no_adapter(field: str, step: StepSpec, problem: str, names: Collection[str]) -> UnknownTask:
    adapter, _, _ = step.task.rpartition(".")
    adapters = {each.rpartition(".")[0] for each in names} - {""}
    near = nearest(step.task, names) or nearest(adapter, adapters)
    how = f"; it is run by {HOW_TO_RUN_THEM}" if adapter in BUILT_IN_ADAPTERS else _hint(near)
    message = f"Adapter not found: {adapter}; {problem}{how}"
    return UnknownTask(field, message, "adapter_not_found", near, step.id)


def _hint(near: str | None) -> str:
    return "" if near is None else f"; did you mean {near!r}?"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
