"""Say what follows the steps of a run of this process, and how the run ends by it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipeweave.authoring import describe
from pipeweave.errors import TaskError
from pipeweave.spec import WITH_OUTPUT, ChildCall, Choice, PipelineSpec, StepSpec
from pipeweave.testing.local_result import RunResult, StepResult

FINALLY = "finally"
FINALLY_FAILED = "FINALLY_FAILED"


@dataclass(slots=True)
class LocalEnding:
    """What followed the steps of a run.

    Args:
        now: when it is over.
        runs: by their parts.
        error: why a run fails that would have ended well; None if it does not.
    """

    now: datetime
    runs: dict[str, RunResult] = field(default_factory=dict)
    error: BaseException | None = None

    def add(self, part: str, run: RunResult) -> None:
        """Add the run of the next part."""
        self.runs[part] = run
        self.now += timedelta(milliseconds=run.waited_ms)
        if part == FINALLY and run.status not in WITH_OUTPUT:
            why = "" if run.error is None else f": {describe(run.error).message}"
            said = f"what runs at the end of the run did not succeed{why}"
            self.error = TaskError(said, code=FINALLY_FAILED, retryable=False)
            self.error.__cause__ = run.error


def parts_of(
    spec: PipelineSpec, status: str, results: Mapping[str, StepResult], ends: Mapping[str, datetime]
) -> Iterator[tuple[str, str, ChildCall]]:
    """What follows the steps of a run: its name, the place of its body, and itself.

    Args:
        status: with which the run ends.
        results: of its steps, in the order in which they were decided.
        ends: when each ended.
    """
    if status == "failed":
        # What ended last is taken back first.
        for id in sorted(reversed(list(results)), key=ends.__getitem__, reverse=True):
            call, result = spec.by_id[id].compensate, results[id]
            if call is not None and result.status == "completed" and result.handled_error is None:
                yield f"compensate:{id}", f"{id}.compensate", call
    if spec.finally_call is not None:
        yield FINALLY, FINALLY, spec.finally_call


def outside_of_branches(step: StepSpec, successors: Collection[str]) -> tuple[str, ...] | None:
    """The successors of a step whose error was handled: of a choice, those in no branch; None for all."""
    if not isinstance(step.decides, Choice):
        return None
    return tuple(each for each in successors if each not in step.decides.branches)
