"""Says why a run ended badly whose failure mode let it go on after a failure (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun

STEP_FAILED = "STEP_FAILED"
# The error of a run lists so many failed task runs.
MOST_LISTED = 100
# The error of a run repeats so much of its step's message (characters), and names so many causes.
MOST_OF_A_CAUSE = 500
# The reason of a pause has so many at most.
MOST_OF_A_REASON = 1_000
MOST_OF_ONE_OF_SEVERAL = 160
NAMED_CAUSES = 3


@dataclass(frozen=True, slots=True)
class Cause:
    """Task runs of one step that ended with the same code.

    Args:
        failed: how many.
        first: the first one of them.
        message: the error of `first`.
    """

    step_id: str
    code: str | None
    failed: int
    first: UUID
    message: str | None


@dataclass(frozen=True, slots=True)
class Failures:
    """All that failed in a run.

    Args:
        causes: those with the most task runs, at most NAMED_CAUSES.
        failed: how many task runs did not end well, cancelled ones among them. A map that failed because of
            its items is none: they are.
        cancelled: how many of `failed` were cancelled.
        of: how many task runs the run has.
        first: the first of them, at most MOST_LISTED, each as `listed` gives it.
    """

    causes: Sequence[Cause]
    failed: int
    cancelled: int
    of: int
    first: Sequence[dict[str, Any]] = ()

    def to_error(self) -> dict[str, Any]:
        """The error of the run: `details.causes` holds the causes with their counts, `failures` those that
        failed first.
        """
        first = self.causes[0]
        error: dict[str, Any] = {"code": STEP_FAILED, "message": self._message()}
        if self.first:
            error["failures"] = list(self.first)
        if len(self.causes) == 1:
            error["stepId"] = first.step_id
        if self.failed == 1:
            return error | {"taskRunId": ids.show(ids.TASK_RUN, first.first)}
        causes = [
            {
                "stepId": each.step_id,
                "errorCode": each.code,
                "message": _part(each.message),
                "failed": each.failed,
                "taskRunId": ids.show(ids.TASK_RUN, each.first),
            }
            for each in self.causes
        ]
        return error | {"details": {"failed": self.failed, "taskRuns": self.of, "causes": causes}}

    def _message(self) -> str:
        first = self.causes[0]
        if self.failed == 1:
            return of_a_step(first.step_id, first.code, first.message, is_cancelled=self.cancelled == 1)
        said = f"{self.failed:,} of {self.of:,} task runs {self._verb()}"
        if len(self.causes) == 1 and first.failed == self.failed:
            return f"{said}, all at step {first.step_id}{_why(first.code, _part(first.message))}"
        parts = [
            f"{each.failed:,} at step {each.step_id}{_why(each.code, _part(each.message))}"
            for each in self.causes
        ]
        if others := self.failed - sum(each.failed for each in self.causes):
            parts.append(f"{others:,} at other steps or with other errors")
        return f"{said}: {'; '.join(parts)}"

    def _verb(self) -> str:
        if self.cancelled == self.failed:
            return "were cancelled"
        return "failed or were cancelled" if self.cancelled else "failed"


def error_of(failed: TaskRun, cause: Failure | None) -> dict[str, Any]:
    """The error of a run that ends because of one task run.

    Args:
        failed: the task run of the step; it failed, or was cancelled by itself.
        cause: why; None where that is not known.
    """
    code, message = (None, None) if cause is None else (cause.code, cause.message)
    is_cancelled = failed.status is TaskStatus.CANCELLED
    return {
        "code": STEP_FAILED,
        "message": of_a_step(failed.step_id, code, message, is_cancelled=is_cancelled),
        "stepId": failed.step_id,
        "taskRunId": ids.show(ids.TASK_RUN, failed.id),
        "failures": [listed(failed.step_id, failed.id, failed.map_index, code, message)],
    }


def listed(
    step_id: str, task_run_id: UUID, map_index: int | None, code: str | None, message: str | None
) -> dict[str, Any]:
    """A failed task run as the error of its run lists it."""
    place = {} if map_index is None else {"mapIndex": map_index}
    shown = {"step": step_id, "code": code, "message": message and message[:MOST_OF_A_CAUSE]}
    return {**shown, **place, "taskRunId": ids.show(ids.TASK_RUN, task_run_id)}


def of_a_step(step_id: str, code: str | None, message: str | None, *, is_cancelled: bool = False) -> str:
    """The message of a run that ended badly because of one step."""
    verb = "was cancelled" if is_cancelled else "failed"
    return f"step {step_id} {verb}{_why(code, message and message[:MOST_OF_A_CAUSE])}"


def without_attempts(step_id: str, code: str | None, message: str | None, *, others: int = 0) -> str:
    """Why a run is paused: a step has no attempt left, and the run waits for people.

    Args:
        others: how many more task runs have none.
    """
    more = f" (and {others:,} more)" if others else ""
    return f"step {step_id}{more} has no attempt left{_why(code, _part(message))}"[:MOST_OF_A_REASON]


def _why(code: str | None, message: str | None) -> str:
    said = ": ".join(each for each in (code, message) if each)
    return f": {said}" if said else ""


def _part(message: str | None) -> str | None:
    line = message.strip().partition("\n")[0] if message else ""
    return (line if len(line) <= MOST_OF_ONE_OF_SEVERAL else f"{line[: MOST_OF_ONE_OF_SEVERAL - 1]}…") or None
