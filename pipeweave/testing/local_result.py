"""How a run in this process ended: what `pipeweave.testing` gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class StepResult:
    """What became of a step, or of one item of a map.

    Attributes:
        status: `completed`, `failed`, `skipped` or `cancelled`.
        output: what it gave; a map gives the list of its items' outputs.
        error: what its last attempt raised.
        run_next: the successors it chose; None for all.
        items: of a map, in order.
        attempts: how often it was executed; a map's items have theirs.
        previous_attempts: those that failed before the last one, as the last one's context had them.
        delays_ms: what would have passed before each further attempt, ms; jitter takes nothing off here.
    """

    status: str
    output: Any = None
    error: BaseException | None = None
    run_next: tuple[str, ...] | None = None
    items: list[StepResult] = field(default_factory=list)
    attempts: int = 0
    previous_attempts: list[Mapping[str, Any]] = field(default_factory=list)
    delays_ms: list[int] = field(default_factory=list)
    follows_failure: bool = False


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended.

    Attributes:
        status: `completed`, `partial` or `failed`.
        steps: by step id, in the order in which they were decided.
        output: of the last step; where the pipeline has several ends, their outputs by step id.
    """

    status: str
    steps: Mapping[str, StepResult]
    output: Any

    @property
    def error(self) -> BaseException | None:
        """What the first failed step raised."""
        return next((step.error for step in self.steps.values() if step.error is not None), None)

    def raise_error(self) -> RunResult:
        """Raise what the first failed step raised, if one failed; else return the result."""
        if self.error is not None:
            raise self.error
        return self
