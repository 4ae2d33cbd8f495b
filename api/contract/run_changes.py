"""Models of the requests that pause, resume or cancel runs, one or many."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeweave import ids
from pipeweave.api.contract.dead_letters import Time
from pipeweave.api.contract.requests import MAX_REASON, WHOLE, Name, Request
from pipeweave.orchestrator.documents.base import RunId
from pipeweave.orchestrator.documents.parts import TriggerKind
from pipeweave.orchestrator.domain import RunStatus
from pipeweave.orchestrator.runs import bulk

# Runs that one request may name.
MAX_IDS = 1_000


class RunChangesFilter(Request):
    """Which runs, as the list of runs filters them; at least one filter is required."""

    ids: Annotated[list[RunId], Field(min_length=1, max_length=MAX_IDS)] | None = Field(
        None,
        description="Only these runs. Others that the tenant does not have, or that ended, do not count.",
    )
    status: Annotated[RunStatus, Field(strict=False)] | None = None
    pipeline_id: Name | None = None
    triggered_by: TriggerKind | None = Field(None, description="Only runs that such a thing began.")
    created_after: Time | None = Field(None, description="Created at this time or later.")
    created_before: Time | None = Field(None, description="Created before this time.")

    def filter(self) -> bulk.RunsToChange:
        """The filter in the form that the orchestrator takes."""
        return bulk.RunsToChange(
            None if self.status is None else self.status.value,
            self.pipeline_id,
            self.triggered_by,
            self.created_after,
            self.created_before,
            None if self.ids is None else tuple(ids.read(ids.RUN, each) for each in self.ids),
        )


class RunChangesRequest(Request):
    """Pause, resume or cancel all runs that match a filter."""

    action: Annotated[bulk.Action, Field(strict=False)]
    filter: RunChangesFilter
    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = Field(
        None, description="Stored with each run that is paused or cancelled."
    )
    dry_run: bool = Field(False, description="Only count the runs that match.")
    limit: Annotated[int, Field(ge=1, le=bulk.MAX_LIMIT), WHOLE] = Field(
        1_000, description="Change at most this many runs; the same request goes on with the rest."
    )


class PauseRunRequest(Request):
    """Pause a run."""

    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = Field(
        None, description="Shown with the run and with everything of it that waits."
    )


class ResumeRunRequest(Request):
    """Resume a paused run."""
