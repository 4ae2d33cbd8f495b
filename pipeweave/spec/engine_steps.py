"""Defines the steps that the engine decides itself, without a task: choice, transform and gather here, those
that wait in wait_steps.py, those that run a pipeline in child_steps.py.

A text in them may hold expressions. Their JSON is what a document may have, too: reading it gives an equal
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pipeweave.ids import ENGINE_TASK_PREFIX as ENGINE_TASK_PREFIX
from pipeweave.spec.child_steps import Body, ChildPipeline, LoopStep
from pipeweave.spec.kinds import CHOICE, TRANSFORM, StepKind
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a choice.

    Args:
        condition: an expression; None for the default, which is the last case.
        next: the first steps of its branch.
        name: for people; None for its place in the list.
    """

    condition: str | None
    next: tuple[str, ...]
    name: str | None = None

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {} if self.condition is None else {"condition": self.condition}
        shown |= {} if self.name is None else {"name": self.name}
        return {**shown, "next": list(self.next)}


@dataclass(frozen=True, slots=True)
class Choice:
    """Takes the branch of the first case whose condition is true. Steps behind it that are in no branch are
    always chosen; with no true case and no default, only those are.
    """

    cases: tuple[Case, ...]
    kind: ClassVar[StepKind] = CHOICE
    word: ClassVar[str] = "choice"

    @property
    def branches(self) -> frozenset[str]:
        """The first steps of all branches."""
        return frozenset(each for case in self.cases for each in case.next)

    def to_json(self) -> Any:
        return [each.to_json() for each in self.cases]


@dataclass(frozen=True, slots=True)
class FailIf:
    """A failure that a transform raises when its condition is true.

    Args:
        condition: an expression.
        code: the error code of the step.
        message: for people; a template.
    """

    condition: str
    code: str
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"condition": self.condition, "code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Transform:
    """Completes with a value made of other values.

    Args:
        output: a JSON value with expressions.
        fail_if: looked at first, in their order.
    """

    output: Any
    fail_if: tuple[FailIf, ...] = ()
    kind: ClassVar[StepKind] = TRANSFORM
    word: ClassVar[str] = "transform"

    def to_json(self) -> Any:
        return {"output": self.output, "failIf": [each.to_json() for each in self.fail_if]}


@dataclass(frozen=True, slots=True)
class Gather:
    """Joins a parallel block of which all members end, whatever happens; then it fails if one of them failed.

    Its output is an object: the output of each of its predecessors, by their ids.

    Args:
        members: all steps of the block. Their failures do not end the run by themselves.
    """

    members: tuple[str, ...]
    kind: ClassVar[StepKind] = TRANSFORM
    word: ClassVar[str] = "gather"

    def to_json(self) -> Any:
        return list(self.members)


EngineStep = Choice | Transform | Gather | Sleep | SignalWait | Approval | ChildPipeline | Body | LoopStep


def engine_task(step: EngineStep) -> str:
    """The id that the task runs of such a step have as their task."""
    return f"{ENGINE_TASK_PREFIX}{'sleep' if isinstance(step, Sleep) else step.word}"


# What the task runs of steps with child runs have as their task, also the items of a map.
CHILD_TASKS = frozenset(f"{ENGINE_TASK_PREFIX}{each.word}" for each in (ChildPipeline, Body, LoopStep))


def engine_json(step: EngineStep) -> Mapping[str, Any]:
    """The key of a step's document that says what the engine does, with its value."""
    return {step.word: step.to_json()}
