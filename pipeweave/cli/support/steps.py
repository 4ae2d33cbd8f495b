"""The progress of a run's steps as people read it: what is done, which attempt, what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipeweave.cli.support.rendering import seconds, took
from pipeweave.spec import WITH_ITEMS, seen

if TYPE_CHECKING:
    from pipeweave.client import Run

FINAL = frozenset({"completed", "partial", "failed", "timeout", "cancelled", "skipped"})


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The progress of one step; the numbers count its task runs (a map has one per item).

    Args:
        status: as people see it: `running` for a map whose items are not final, `partial` if some failed.
        done: how many ended, well or badly.
        progress: percent that the running attempt reported.
        message: what the running attempt reported.
        due_at: when the next attempt is due, while the step waits for that.
        started_at: start of the first attempt.
        over_ms: how long its run was over meanwhile, before it was reopened.
        child: the run that it started last, where it runs a pipeline, or another run takes care of its error.
        round: of a loop, the round that it is in, from 1.
    """

    id: str
    status: str
    is_map: bool = False
    done: int = 0
    total: int = 1
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    attempt: int = 1
    max_attempts: int = 1
    progress: float | None = None
    message: str | None = None
    due_at: str | None = None
    error_code: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    over_ms: float = 0
    child: str | None = None
    round: int | None = None

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def is_retrying(self) -> bool:
        """Whether the step waits for its next attempt."""
        return self.status == "pending" and self.attempt > 1 and self.due_at is not None

    @property
    def is_handled(self) -> bool:
        """Whether its last attempt has failed, and another run takes care of the error."""
        return self.status == "waiting" and self.error_code is not None

    def counts(self) -> str:
        """How many of its task runs completed, and how the others ended: `8/10, 2 failed`."""
        others = {"failed": self.failed, "cancelled": self.cancelled, "skipped": self.skipped}
        ended = [f"{number:,} {name}" for name, number in others.items() if number and self.is_map]
        return ", ".join([f"{self.completed:,}/{self.total:,}", *ended])

    def attempts(self) -> str | None:
        """`2/4`: the attempt and how many there may be; None for maps and steps that never started."""
        if self.is_map or (self.started_at is None and not self.is_retrying):
            return None
        return f"{self.attempt}/{max(self.max_attempts, self.attempt)}"

    def detail(self, now: datetime | None = None) -> str | None:
        """What the step does or waits for, or the code of its error."""
        if self.is_retrying:
            return f"retry {self.attempts()} {_until(self.due_at, now)}"
        if self.is_handled:
            return f"{self.error_code}; {self.child or 'a run'} takes care of it"
        shown = [self.inside(), self.error_code if self.is_final else self.reported()]
        return "  ".join(each for each in shown if each) or None

    def inside(self) -> str | None:
        """Its round, and the run that it started last: `round 3, prun_01…`."""
        of_round = None if self.round is None else f"round {self.round:,}"
        return ", ".join(each for each in (of_round, self.child) if each) or None

    def reported(self) -> str | None:
        """The progress that the task reported: `30 %: asking the bank`."""
        shown = [] if self.progress is None else [f"{self.progress:g} %"]
        return ": ".join([*shown, *([self.message] if self.message else [])]) or None

    def duration(self) -> str:
        """The time from the start of its first attempt to its end, or until now, without that in which the
        run was over.
        """
        return took(self.started_at, self.finished_at, over_ms=self.over_ms)


def seen_status(step: Mapping[str, Any]) -> str:
    """The status of a step as people see it."""
    return seen(step["status"], step["failed"] if step.get("kind") in WITH_ITEMS else 0)


def steps_of(run: Run) -> list[StepProgress]:
    """The progress of each step of a run, in the order of its pipeline."""
    return [_step(each) for each in run.document.get("steps") or ()]


def _step(each: Mapping[str, Any]) -> StepProgress:
    is_map = each.get("kind") in WITH_ITEMS
    return StepProgress(
        id=each["id"],
        status="running" if is_map and each["status"] == "waiting" else seen_status(each),
        is_map=is_map,
        done=each["done"],
        total=each["total"],
        completed=each["completed"],
        failed=each["failed"],
        cancelled=each["cancelled"],
        skipped=each["skipped"],
        attempt=each["attempt"],
        max_attempts=each["maxAttempts"],
        progress=each.get("progress"),
        message=each.get("progressMessage"),
        due_at=each.get("dueAt"),
        error_code=each.get("errorCode"),
        started_at=each.get("startedAt"),
        finished_at=each.get("finishedAt"),
        over_ms=each.get("overMs") or 0,
        child=each.get("childRunId"),
        round=each.get("round"),
    )


def _until(moment: str | None, now: datetime | None) -> str:
    left = (datetime.fromisoformat(moment or "") - (now or datetime.now(UTC))).total_seconds()
    return f"in {seconds(left)}" if left >= 1 else "now"
