"""Says why a run ended badly whose failure mode let it go on after a failure (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids

STEP_FAILED = "STEP_FAILED"
# The error of a run repeats so much of its step's message (characters), and names so many causes.
MOST_OF_A_CAUSE = 500
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
    """

    causes: Sequence[Cause]
    failed: int
    cancelled: int
    of: int

    def to_error(self) -> dict[str, Any]:
        """The error of the run: `details.causes` holds the causes with their counts."""
        first = self.causes[0]
        error: dict[str, Any] = {"code": STEP_FAILED, "message": self._message()}
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


def of_a_step(step_id: str, code: str | None, message: str | None, *, is_cancelled: bool = False) -> str:
    """The message of a run that ended badly because of one step."""
    verb = "was cancelled" if is_cancelled else "failed"
    return f"step {step_id} {verb}{_why(code, message and message[:MOST_OF_A_CAUSE])}"


def _why(code: str | None, message: str | None) -> str:
    said = ": ".join(each for each in (code, message) if each)
    return f": {said}" if said else ""


def _part(message: str | None) -> str | None:
    line = message.strip().partition("\n")[0] if message else ""
    return (line if len(line) <= MOST_OF_ONE_OF_SEVERAL else f"{line[: MOST_OF_ONE_OF_SEVERAL - 1]}…") or None
