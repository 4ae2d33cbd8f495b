"""The parameters of the log of a whole run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import Name
from pipeweave.api.contract.storage import MAX_FIND
from pipeweave.orchestrator.reading import RunLogFilter


class RunLogsQuery(PageQuery):
    """Which lines are wanted of the log of a run."""

    order: Literal["newest", "oldest"] = Field(
        "newest", description="Whether the first page has the newest or the oldest lines."
    )
    step_id: Name | None = Field(None, description="Only lines of this step and its items.")
    level: Literal["debug", "info", "warning", "error", "critical"] | None = Field(
        None, description="Only lines as serious as this. One without a level is `info`."
    )
    text: Annotated[str, Field(min_length=1, max_length=MAX_FIND)] | None = Field(
        None, description="Only lines that have this text, in whatever case."
    )

    def wanted(self) -> RunLogFilter:
        """The filter in the form that the orchestrator takes."""
        return RunLogFilter(self.order, self.step_id, self.level, self.text)
