"""Hold what a test answers to steps that ask something outside: people, or another system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any, Final

from pipeweave.errors import InvalidInput
from pipeweave.spec import PipelineSpec, StepSpec
from pipeweave.suggestions import did_you_mean
from pipeweave.testing.local_definitions import Definitions

# A wrong name is answered with so many right ones, of pipelines that are so deep inside.
_MOST_NAMED, _NAMED_DEPTH = 20, 2
# The answer that a test does not give: None is one that it may give.
NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a test.

    Args:
        by_path: by the ids of the steps, behind those of the steps that lead to their runs: one for each time
            that the step asks.
    """

    by_path: Mapping[str, Iterator[Any]] = field(default_factory=dict)

    def next(self, path: str) -> Any:
        """The next answer to a step; NOTHING if there is none."""
        return next(self.by_path.get(path, iter(())), NOTHING)


@dataclass(frozen=True, slots=True)
class Asking:
    """The steps that ask something.

    Args:
        argument: of `run_pipeline` that has the answers.
        name: of such a step, for people.
        is_asking: whether a step is one of them.
        checked: an answer to the step as it is used, from the answer as it was given and its place.
    """

    argument: str
    name: str
    is_asking: Callable[[StepSpec], bool]
    checked: Callable[[Any, StepSpec, str], Any]

    def answers(self, definitions: Definitions, written: Mapping[str, Any] | None) -> Answers:
        """The answers that a test gives, by the paths of steps: a list is one for each time, anything else
        one for all times.

        Raises:
            InvalidInput: a path names no such step, or `checked` refuses the answer.
        """
        by_path: dict[str, Iterator[Any]] = {}
        for path, answer in (written or {}).items():
            step, place = self._step(definitions, path), f"{self.argument}.{path}"
            if isinstance(answer, list | tuple):
                listed = [self.checked(each, step, f"{place}[{at}]") for at, each in enumerate(answer)]
                by_path[path] = iter(listed)
            else:
                by_path[path] = repeat(self.checked(answer, step, place))
        return Answers(by_path)

    def _step(self, definitions: Definitions, path: str) -> StepSpec:
        root = definitions.root
        step = self._find(definitions, root, path)
        if step is None:
            named = list(islice(self._paths(definitions, root), _MOST_NAMED))
            hint = did_you_mean(path, named, f"its {self.name}s are {', '.join(named) or 'none'}")
            raise InvalidInput(f"pipeline {root.id!r} has no {self.name} {path!r}", hint=hint)
        return step

    def _find(self, definitions: Definitions, spec: PipelineSpec, path: str) -> StepSpec | None:
        """The step that a path names: `approval`, or `review.approval` in what step `review` runs."""
        step = spec.by_id.get(path)
        if step is not None and self.is_asking(step):
            return step
        inside = (each for each in definitions.within(spec) if path.startswith(f"{each[0]}."))
        steps = (self._find(definitions, inner, path[len(before) + 1 :]) for before, inner in inside)
        return next((each for each in steps if each is not None), None)

    def _paths(
        self, definitions: Definitions, spec: PipelineSpec, before: str = "", depth: int = 0
    ) -> Iterator[str]:
        """The paths of the steps, for people: those of the pipeline itself, and some levels below."""
        yield from (before + each.id for each in spec.steps if self.is_asking(each))
        for path, inner in definitions.within(spec) if depth < _NAMED_DEPTH else ():
            yield from self._paths(definitions, inner, f"{before}{path}.", depth + 1)
