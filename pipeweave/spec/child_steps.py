"""Defines the steps that run a pipeline, or steps of their own, inside of their own run: once, or in rounds.

What such a step runs is an ordinary run, the child. A pipeline has the parameters of the step as its input,
and sees nothing else. A body, steps that are written inside of the step, may refer to whatever the step may.
The step waits for the end of the child, and no worker and no process waits with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pipeweave.errors import FieldError, TooManyChildren
from pipeweave.size_limits import MAX_CHILDREN
from pipeweave.spec.kinds import BODY, StepKind

# The most rounds that a loop may have.
MAX_ROUNDS: Final = 10_000
# A run and those inside of it, one in the other.
MAX_DEPTH: Final = 10


@dataclass(frozen=True, slots=True)
class ChildPipeline:
    """Runs a pipeline, and completes with its output.

    Args:
        id: of the pipeline, in the same tenant.
        version: of it; None for the latest when the child starts.
    """

    id: str
    version: int | None = None
    kind: ClassVar[StepKind] = BODY
    word: ClassVar[str] = "pipeline"

    def to_json(self) -> Any:
        return self.id if self.version is None else {"id": self.id, "version": self.version}


@dataclass(frozen=True, slots=True)
class Body:
    """Steps that are written inside of another step, as what each of its items, or of its rounds, runs.

    Args:
        steps: StepSpecs, in document order. Their ids are unique in the whole pipeline.
    """

    # A StepSpec holds bodies, so its module comes after this one.
    steps: tuple[Any, ...]
    kind: ClassVar[StepKind] = BODY
    word: ClassVar[str] = "steps"

    def to_json(self) -> Any:
        return [each.to_json() for each in self.steps]


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Runs a pipeline or a body in rounds, each a child of its own, until a condition holds.

    Args:
        body: what a round runs. The params of a pipeline are filled anew for each round.
        max_rounds: without success after so many rounds the step fails with LOOP_LIMIT.
        until: an expression over `loop.index` (from 0), `last` (the output of the round) and what the
            step may refer to; the loop ends when it is true. None: it ends after `max_rounds`.
        delay_ms: how long it waits between two rounds (ms).
        collect: its output is the list of the outputs of all rounds; else that of the last round.
    """

    body: ChildPipeline | Body
    max_rounds: int
    until: str | None = None
    delay_ms: int = 0
    collect: bool = False
    kind: ClassVar[StepKind] = BODY
    word: ClassVar[str] = "loop"

    def to_json(self) -> Any:
        shown: dict[str, Any] = {self.body.word: self.body.to_json(), "maxIterations": self.max_rounds}
        shown |= {} if self.until is None else {"until": self.until}
        shown |= {"delayMs": self.delay_ms} if self.delay_ms else {}
        return shown | ({"collect": True} if self.collect else {})


ChildStep = ChildPipeline | Body | LoopStep


def body_of(step: ChildStep) -> ChildPipeline | Body:
    """What a child of a step runs."""
    return step.body if isinstance(step, LoopStep) else step


def check_children(items: int) -> None:
    """Check how many child runs a map of pipelines or steps would have: one for each of its items.

    Raises:
        TooManyChildren: more than MAX_CHILDREN.
    """
    if items > MAX_CHILDREN:
        way_out = f"a list of at most {MAX_CHILDREN:,} batches, with another map in the body"
        raise TooManyChildren(
            f"the list has {items:,} items, and each would be a run of its own; a map of pipelines or steps "
            f"takes at most {MAX_CHILDREN:,}",
            errors=[FieldError("map.over", f"has {items:,} items", "too_many_children", way_out)],
            hint="map over batches: a list of lists, and another map in the body",
        )
