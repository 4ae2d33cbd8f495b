"""Define the results that `pipeweave.testing` returns: RunResult and StepResult."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class StepResult:
    """The result of a step, or of one item of a map.

    Attributes:
        status: `completed`, `failed`, `timeout` (of a wait), `skipped` or `cancelled`.
        output: the step's output; for a map the list of its items' outputs.
        error: the error that the last attempt raised.
        run_next: the successors that the step chose; None for all.
        items: the results of a map's items, in order.
        attempts: the number of attempts; 0 for a map, whose items have their own.
        previous_attempts: the failed attempts before the last attempt, as its context showed them.
        delays_ms: the delays before each retry in production, ms, without jitter.
        assets: the values of the assets that the step has added, by key; of a map, those of its last items.
        follows_failure: true if the step was skipped because of a failure before it.
        is_passed_over: true if its condition was false, or its failure is tolerated: the steps behind it run.
        waited_ms: how long it would have waited for a time, a signal, a person or the runs of its pipeline,
            ms.
        runs: of a step that runs a pipeline: the results of its rounds and tries, in order. Those of a map
            are at its items.
        handler: the run that took care of its error; None if nothing did.
        handled_error: the error that was taken care of: the step completed by the run's success.
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
    is_passed_over: bool = False
    waited_ms: int = 0
    assets: Mapping[str, Any] = field(default_factory=dict)
    runs: list[RunResult] = field(default_factory=list)
    handler: RunResult | None = None
    handled_error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run.

    Attributes:
        status: `completed`, `partial` or `failed`.
        steps: the results by step id, in the order in which the steps were decided.
        output: the run's output, as the API shows it: what the `@pipeline` function returns (`output` of a
            document), else the output of the end step; if the pipeline has several end steps, their outputs
            by step id. None if the run is neither `completed` nor `partial`.
        id: of the run, in the form that the API shows.
        waited_ms: how long its steps, and what follows them, would have waited until its end, ms.
        ending: the runs that followed its steps, in their order: `compensate:<step id>`, then `finally`.
        ending_error: why it failed, if no step of it is the reason: what follows its steps failed, or it
            could not start.
    """

    status: str
    steps: Mapping[str, StepResult]
    output: Any
    id: str = ""
    waited_ms: int = 0
    ending: Mapping[str, RunResult] = field(default_factory=dict)
    ending_error: BaseException | None = None

    @property
    def error(self) -> BaseException | None:
        """The error of the first failed step that is not passed over, else that of the ending. None if the
        run completed: what failed in it was taken care of.
        """
        if self.status == "completed":
            return None
        failed = (each for each in self.steps.values() if each.error is not None and not each.is_passed_over)
        return next((each.error for each in failed), self.ending_error)

    def raise_error(self) -> RunResult:
        """Raise the error of the first failed step; return this result if no step failed."""
        if self.error is not None:
            raise self.error
        return self
