"""`@pipeline`: a function whose calls of tasks draw a graph. The other two ways, documents and
`allowed_next`, are here too: all give the same PipelineSpec.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pipeweave.authoring import graph_builder
from pipeweave.authoring.document_loading import load_documents
from pipeweave.errors import InvalidSpec
from pipeweave.spec import MapSpec, PipelineSpec, StepSpec, derive, parse_spec

__all__ = [
    "MapSpec",
    "Pipeline",
    "PipelineSpec",
    "StepSpec",
    "derive",
    "load_documents",
    "parse_spec",
    "pipeline",
    "registered_pipelines",
]

P = ParamSpec("P")
R = TypeVar("R")

_registry: dict[str, Pipeline[..., Any]] = {}


class Pipeline(Generic[P, R]):
    """A function that draws a pipeline. It is drawn when its spec is first asked for, so that the tasks it
    calls may be defined below it. Called, it is the plain function: its tasks run here and now.

    Attributes:
        fn: the plain function.
        id: of the pipeline.
    """

    def __init__(self, fn: Callable[P, R], id: str, options: Mapping[str, Any]) -> None:
        self.fn = fn
        self.id = id
        self._options = options
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if graph_builder.current() is not None:
            raise InvalidSpec("a pipeline is called inside another one: call its tasks instead")
        return self.fn(*args, **kwargs)

    @cached_property
    def spec(self) -> PipelineSpec:
        """What is stored.

        Raises:
            InvalidSpec: the function does something else than calling tasks, or the graph is wrong.
        """
        return self._drawn[0]

    @property
    def tasks(self) -> Mapping[str, Any]:
        """The tasks it uses, by id."""
        return self._drawn[1]

    @cached_property
    def _drawn(self) -> tuple[PipelineSpec, Mapping[str, Any]]:
        inputs: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        for name, each in inspect.signature(self.fn).parameters.items():
            if each.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
                raise InvalidSpec(
                    f"pipeline {self.id!r}: parameter {name!r} cannot be filled from the run's input"
                )
            inputs[name] = graph_builder.Result("input", (name,))
            if each.default is not inspect.Parameter.empty:
                defaults[name] = each.default
        with graph_builder.draw() as drawn:
            self.fn(**inputs)  # type: ignore[call-arg]  # every parameter is a reference while drawing
        document = {**self._options, "id": self.id, "defaults": defaults, "steps": drawn.steps}
        return parse_spec(document), drawn.tasks

    def __repr__(self) -> str:
        return f"<pipeline {self.id!r}>"


@overload
def pipeline(fn: Callable[P, R], /) -> Pipeline[P, R]: ...


@overload
def pipeline(
    *,
    id: str | None = None,
    description: str | None = None,
    failure_mode: str = "fail-fast",
    priority: int | None = None,
    timeout: float | str | None = None,
    idle_timeout: float | str | None = None,
) -> Callable[[Callable[P, R]], Pipeline[P, R]]: ...


def pipeline(
    fn: Callable[P, R] | None = None,
    /,
    *,
    id: str | None = None,
    description: str | None = None,
    failure_mode: str = "fail-fast",
    priority: int | None = None,
    timeout: float | str | None = None,
    idle_timeout: float | str | None = None,
) -> Pipeline[P, R] | Callable[[Callable[P, R]], Pipeline[P, R]]:
    """Make a function a pipeline: `@pipeline` or `@pipeline(failure_mode="continue")`.

    Its parameters stand for `${input.<name>}`; their defaults are the input's defaults.

    Args:
        fn: the function, where there are no options.
        id: of the pipeline; the function's name by default.
        description: for people; the first line of the docstring by default.
        failure_mode: `fail-fast`, `continue` or `partial-merge`.
        priority: of its task runs, lower first; None for each task's own.
        timeout: how long a run may take: seconds, or a text as `30s`, `5m` or `2h`; None for the deployment's
            limit.
        idle_timeout: how long nothing may happen in a run, in the same words; None for no limit.
    """
    options = {
        "description": description,
        "failureMode": failure_mode,
        "priority": priority,
        "timeout": timeout,
        "idleTimeout": idle_timeout,
    }
    if fn is not None:
        return _make(fn, id, options)
    return lambda decorated: _make(decorated, id, options)


def _make(fn: Callable[P, R], id: str | None, options: Mapping[str, Any]) -> Pipeline[P, R]:
    _refuse_what_is_no_function(fn)
    about = options["description"] or (inspect.getdoc(fn) or "").partition("\n")[0] or None
    made = Pipeline(fn, id or fn.__name__, {**options, "description": about})
    _registry[made.id] = made
    return made


def _refuse_what_is_no_function(fn: Any) -> None:
    if not inspect.isfunction(fn):
        raise InvalidSpec(f"{fn!r} is not a function: @pipeline goes before `def`")


def registered_pipelines() -> dict[str, PipelineSpec]:
    """The specs of every `@pipeline` defined so far in this process, by id.

    Raises:
        InvalidSpec: one of them is wrong.
    """
    return {id: each.spec for id, each in _registry.items()}
