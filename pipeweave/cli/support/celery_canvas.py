"""Write a Celery canvas as the document of a pipeline, whose steps call the Celery tasks (docs/adapters.md).

A signature is read as the mapping that Celery makes of it, so nothing of Celery is imported. What a task of a
canvas gets from those before it, Celery puts before its own arguments; so do the steps, by `${steps.…}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeweave.errors import InvalidInput
from pipeweave.json_conversion import to_json_value

# Options that become something, that Celery sets by itself, or that say nothing about when and whether a task
# runs.
_KEPT = frozenset(
    {"queue", "link", "task_id", "root_id", "parent_id", "group_id", "group_index", "reply_to", "chord"}
    | {"ignore_result", "argsrepr", "kwargsrepr", "shadow", "serializer", "compression"}
)
# Options with a meaning that a step has in another way.
_INSTEAD = {
    "link_error": "`on_error` of the step, or `error_handlers` of the pipeline",
    "countdown": "a step with `wait` before it",
    "eta": "a step with `wait` before it",
    "expires": "`wait` in the params of the step, or `timeout` of the pipeline",
}
# Ids of steps are plain names here, so that expressions name them without quotes.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class _Before:
    """What a signature gets from those before it.

    Args:
        args: values that Celery would put before its own arguments.
        steps: the steps that it waits for.
    """

    args: tuple[Any, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(slots=True)
class _CanvasSteps:
    steps: list[dict[str, Any]] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def add(self, signature: Any, before: _Before) -> _Before:
        """Add the steps of a signature; what those after it get."""
        if not isinstance(signature, Mapping) or not isinstance(signature.get("task"), str):
            raise InvalidInput(
                f"{type(signature).__name__} is no signature of Celery", hint="sign a task: add.s(1, 2)"
            )
        inner = signature.get("kwargs") or {}
        match signature.get("subtask_type"):
            case "chain":
                for each in _tasks(inner, "tasks", "chain"):
                    before = self.add(each, before)
                return self._linked(signature, before)
            case "group":
                return self._linked(signature, self._side_by_side(_tasks(inner, "tasks", "group"), before))
            case "chord":
                header = inner["header"]
                members = [header] if isinstance(header, Mapping) else list(header)
                results = self._side_by_side(members, before)
                # One group is the header itself, not a list of one result.
                is_group = isinstance(header, Mapping) and header.get("subtask_type") == "group"
                return self._linked(
                    signature, self.add(inner["body"], _only(results) if is_group else results)
                )
            case _:
                return self._linked(signature, self._task(signature, before))

    def _side_by_side(self, members: Sequence[Any], before: _Before) -> _Before:
        ends = [self.add(each, before) for each in members]
        return _Before(
            ([_value(each) for each in ends],), tuple(step for each in ends for step in each.steps)
        )

    def _linked(self, signature: Mapping[str, Any], after: _Before) -> _Before:
        """Add what `link` names: it gets the result, and nobody waits for it."""
        linked = (signature.get("options") or {}).get("link") or ()
        for each in [linked] if isinstance(linked, Mapping) else linked:
            self.add(each, after)
        return after

    def _task(self, signature: Mapping[str, Any], before: _Before) -> _Before:
        name, options = signature["task"], signature.get("options") or {}
        _check_options(name, options)
        is_alone = bool(signature.get("immutable"))
        own = [
            _literal(each, f"{name}: argument {place}") for place, each in enumerate(signature["args"] or ())
        ]
        params: dict[str, Any] = {"task": name, "args": own if is_alone else [*before.args, *own]}
        if signature["kwargs"]:
            params["kwargs"] = {
                key: _literal(each, f"{name}: {key}") for key, each in signature["kwargs"].items()
            }
        if (queue := options.get("queue")) is not None:
            params["queue"] = str(getattr(queue, "name", queue))
        step: dict[str, Any] = {"id": self._id(name), "adapter": "celery", "action": "call", "params": params}
        if is_alone and before.steps:
            step["needs"] = list(before.steps)
        self.steps.append(step)
        return _Before((f"${{steps.{step['id']}}}",), (step["id"],))

    def _id(self, task: str) -> str:
        plain = _NOT_PLAIN.sub("_", task.rpartition(".")[2]).strip("_")
        plain = plain if plain[:1].isalpha() else f"task_{plain}".rstrip("_")
        number, name = 1, plain
        while name in self.taken:
            number += 1
            name = f"{plain}_{number}"
        self.taken.add(name)
        return name


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    if name == "celery.chunks":
        raise InvalidInput("chunks of a task are no canvas yet", hint="write task.chunks(…).group()")
    for option, value in sorted(options.items()):
        if value is None or option in _KEPT or (option in _INSTEAD and not value):
            continue
        hint = f"write {_INSTEAD[option]}" if option in _INSTEAD else "leave it out of the signature"
        raise InvalidInput(f"{name}: a step cannot keep the option {option!r}", hint=hint)


def document_of(canvas: Any, id: str, inputs: Sequence[str] = ()) -> dict[str, Any]:
    """The document of a pipeline that does what a canvas does.

    Args:
        canvas: a signature of Celery: of a task, a chain, a group or a chord.
        id: of the pipeline.
        inputs: names of the inputs that stand for the arguments with which the canvas would be called.

    Raises:
        InvalidInput: it is no signature, is empty, has arguments that JSON cannot hold, or options that a
            step cannot keep.
    """
    made = _CanvasSteps()
    end = made.add(canvas, _Before(tuple(f"${{input.{each}}}" for each in inputs)))
    return {"id": id, "steps": made.steps, "output": _value(end)}


def _tasks(inner: Mapping[str, Any], member: str, kind: str) -> list[Any]:
    tasks = list(inner.get(member) or ())
    if not tasks:
        raise InvalidInput(f"the {kind} has no tasks", hint="a pipeline has at least one step")
    return tasks


def _only(results: _Before) -> _Before:
    return _Before((results.args[0][0],), results.steps)


def _value(end: _Before) -> Any:
    return end.args[0] if len(end.args) == 1 else list(end.args)


def _literal(value: Any, place: str) -> Any:
    """An argument as a document has it: what looks like a reference is a text."""
    converted, faults = to_json_value(value)
    if faults:
        raise InvalidInput(f"{place}: {faults[0].sentence()}", hint="pass what JSON can hold")
    return _escaped(converted)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return {key: _escaped(each) for key, each in value.items()} if isinstance(value, dict) else value
