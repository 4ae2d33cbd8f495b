"""Documents of the log of a whole run."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, TaskRunId


class RunLogLine(AnswerModel):
    """A line that an attempt of a run has logged."""

    time: AwareDatetime = Field(
        description="When it was logged; of a line that does not say so, that of the line before it."
    )
    task_run_id: TaskRunId
    step_id: str
    map_index: int | None
    attempt: int
    level: str = Field(description="`debug`, `info`, `warning`, `error` or `critical`.")
    line: dict[str, Any] = Field(description="The line. One that is not JSON is {message}.")


class RunLogs(Paged):
    """A page of what the attempts of a run have logged, by time."""

    logs: list[RunLogLine] = Field(description="The lines, the oldest first on each page.")
    attempts: int = Field(description="The attempts that began.")
    attempts_read: int = Field(
        description="So many of their logs were read: of those that failed, then those that began last."
    )
    is_cut: bool = Field(description="Of a long log, only the end was read.")
    is_complete: bool = Field(description="All attempts whose logs were read are over.")
