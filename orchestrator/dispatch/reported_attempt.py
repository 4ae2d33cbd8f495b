"""Defines the attempt that a report is about, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave import ids
from pipeweave.errors import StaleReport
from pipeweave.orchestrator.dispatch.report import FAILED, PENDING, SUCCESS, Report
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun

# How the task run of an attempt stands that has reported so before. One that was pending may have completed.
_SAME = {
    SUCCESS: (TaskStatus.COMPLETED,),
    FAILED: (TaskStatus.FAILED,),
    PENDING: (TaskStatus.WAITING, TaskStatus.COMPLETED),
}


@dataclass(frozen=True, slots=True)
class ReportedAttempt:
    """The attempt that a report is about.

    Args:
        task_run: whoever holds it: a report may come before the service's name takes that of the dispatching
            process.
        row: of its task run as it is now; None where this process knows the attempt and has not read it.
    """

    dispatch_id: str
    number: int
    task_run: TaskRun
    row: Any = None

    @property
    def is_running(self) -> bool:
        """Whether it is under way."""
        return bool(self.row.attempt == self.number and self.row.status == TaskStatus.RUNNING)

    def has_ended_as(self, report: Report) -> bool:
        """Whether it has ended as this report says."""
        return self.row.attempt == self.number and self.row.status in _SAME[report.status]


def stale(attempt: ReportedAttempt) -> StaleReport:
    """The error for a report of an attempt that is over, by its row."""
    status = attempt.row.status
    if attempt.row.attempt != attempt.number:
        detail = f"attempt {attempt.number} is over: attempt {attempt.row.attempt} is {status}"
    else:
        detail = f"attempt {attempt.number} is over: the task run is {status}"
    return StaleReport(
        detail,
        hint="stop the work; nothing was changed",
        taskRunId=ids.show(ids.TASK_RUN, attempt.row.id),
        attempt=attempt.row.attempt,
        taskRunStatus=str(status),
    )
