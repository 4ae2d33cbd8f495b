"""Check the arguments of a call in a `@pipeline` function against what is called: a task, or a pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeweave.authoring.calling import call_plan
from pipeweave.authoring.rules_of_steps import STEP_OPTIONS
from pipeweave.authoring.signatures import Parameter
from pipeweave.errors import InvalidSpec
from pipeweave.suggestions import did_you_mean

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class CallableTask(Protocol):
    """The attributes of a task, or of a pipeline, that the builder reads."""

    @property
    def id(self) -> str: ...
    @property
    def fn(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class CallTarget:
    """What a step calls.

    Args:
        shown: for errors: `task 'load'`.
        parameters: that take values, in their order.
        takes_any: whether it takes values by other names, too.
        is_filled: whether the run's input fills the parameters of a call without arguments.
    """

    shown: str
    parameters: Sequence[Parameter]
    takes_any: bool
    is_filled: bool

    def takes(self, name: str) -> bool:
        """Whether it takes a value by this name."""
        return self.takes_any or any(each.name == name for each in self.parameters)

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Give positional arguments the names of their parameters, as Python does.

        Raises:
            InvalidSpec: there are too many, or one comes twice or has a name that is none of a parameter.
        """
        positional = [each.name for each in self.parameters if not each.is_keyword_only]
        known = [each.name for each in self.parameters]
        if len(args) > len(positional):
            were = "was" if len(args) == 1 else "were"
            takes = f"takes {_arguments(len(positional))}, but {len(args)} {were} given"
            raise InvalidSpec(f"{self.shown} {takes}", hint=_signature_hint(known))
        placed = dict(zip(positional, args, strict=False))
        for name in kwargs:
            if name in placed:
                raise InvalidSpec(f"{self.shown} got the argument {name!r} twice")
            if name not in known and not self.takes_any:
                hint = did_you_mean(name, known, _signature_hint(known))
                if name in STEP_OPTIONS:
                    hint = f"{name} is an option of the step: write ….options({name}=…)"
                raise InvalidSpec(f"{self.shown} has no parameter {name!r}", hint=hint)
        return {**placed, **kwargs}

    def require(self, params: Mapping[str, Any], item: str | None = None) -> None:
        """Refuse arguments of which a required one is missing.

        Args:
            item: the parameter that takes the items of a map.

        Raises:
            InvalidSpec: with the names of the missing ones.
        """
        if self.is_filled and not params:
            return
        supplied = {*params, item, *(("input",) if self.is_filled else ())}
        missing = [each.name for each in self.parameters if each.is_required and each.name not in supplied]
        if not missing:
            return
        noun = "parameter" if len(missing) == 1 else "parameters"
        hint = "give each required parameter"
        if self.is_filled:
            hint += ", or call the task without arguments: the run's input fills it"
        raise InvalidSpec(f"{self.shown} needs the {noun} {', '.join(map(repr, missing))}", hint=hint)

    def item_parameter(self, names: Iterable[str]) -> str:
        """The parameter that takes the items of a map: the first one that is not in `names`.

        Raises:
            InvalidSpec: none is left.
        """
        taken = set(names)
        for each in self.parameters:
            if each.name not in taken:
                return each.name
        raise InvalidSpec(f"{self.shown} has no parameter left to take the items")


def target_of_task(task: CallableTask) -> CallTarget:
    """What a call of a task takes; callers never pass the Context."""
    plan = call_plan(task.fn)
    return CallTarget(f"task {task.id!r}", plan.parameters, plan.takes_any, is_filled=True)


def target_of_pipeline(pipeline: CallableTask) -> CallTarget:
    """What a call of a pipeline takes: the parameters of its function, which is not drawn for it. One without
    any parameters takes whatever the tasks take that it calls without arguments.
    """
    parameters = _parameters_of(pipeline.fn)
    return CallTarget(f"pipeline {pipeline.id!r}", parameters, not parameters, is_filled=False)


def target_of_body(fn: Callable[..., Any]) -> CallTarget:
    """What a function takes that draws a body."""
    return CallTarget(f"body {fn.__name__!r}", _parameters_of(fn), takes_any=False, is_filled=False)


def _parameters_of(fn: Any) -> list[Parameter]:
    return [
        Parameter(
            name,
            is_required=each.default is inspect.Parameter.empty,
            is_keyword_only=each.kind is inspect.Parameter.KEYWORD_ONLY,
        )
        for name, each in inspect.signature(fn).parameters.items()
        if each.kind in _BY_NAME
    ]


def item_of_pipeline(pipeline: CallableTask, name: str | None, params: Mapping[str, Any]) -> str | None:
    """The parameter that takes the items of a map of pipelines; None where each item is a whole input.

    Raises:
        InvalidSpec: none is left.
    """
    target = target_of_pipeline(pipeline)
    if name is not None or not (target.parameters or params):
        return name
    return target.item_parameter(params)


def _arguments(count: int) -> str:
    return f"{count} positional argument{'' if count == 1 else 's'}"


def _signature_hint(known: Sequence[str]) -> str:
    return f"its parameters are {', '.join(known)}" if known else "it has no parameters"
