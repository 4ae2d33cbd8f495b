"""Defines the steps that run a pipeline inside of their own run: once, or in rounds.

What such a step runs is an ordinary run, the child, with the parameters of the step as its input. The step
waits for the end of the child, and no worker and no process waits with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

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
class LoopStep:
    """Runs a pipeline in rounds, each a child of its own, until a condition holds.

    Args:
        pipeline: what a round runs. The step's params are filled anew for each round.
        max_rounds: without success after so many rounds the step fails with LOOP_LIMIT.
        until: an expression over `loop.index` (from 0), `last` (the output of the round) and what the
            step may refer to; the loop ends when it is true. None: it ends after `max_rounds`.
        delay_ms: how long it waits between two rounds (ms).
        collect: its output is the list of the outputs of all rounds; else that of the last round.
    """

    pipeline: ChildPipeline
    max_rounds: int
    until: str | None = None
    delay_ms: int = 0
    collect: bool = False
    kind: ClassVar[StepKind] = BODY
    word: ClassVar[str] = "loop"

    def to_json(self) -> Any:
        shown: dict[str, Any] = {"pipeline": self.pipeline.to_json(), "maxIterations": self.max_rounds}
        shown |= {} if self.until is None else {"until": self.until}
        shown |= {"delayMs": self.delay_ms} if self.delay_ms else {}
        return shown | ({"collect": True} if self.collect else {})


ChildStep = ChildPipeline | LoopStep


def pipeline_of(step: ChildStep) -> ChildPipeline:
    """The pipeline that a step runs."""
    return step.pipeline if isinstance(step, LoopStep) else step
