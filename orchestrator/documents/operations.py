"""Documents of operations: bulk changes of runs, and redrives of dead letters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave import ids
from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId, TypeId
from pipeweave.orchestrator.operations import BulkAction

RedriveId = Annotated[str, TypeId(ids.REDRIVE)]
BulkId = Annotated[str, TypeId(ids.BULK)]
Outcome = Literal["changed", "skipped"]


class BulkPlan(AnswerModel):
    """What a bulk change would do now."""

    is_dry_run: Literal[True]
    action: BulkAction
    matched: int = Field(description="Runs that match and that the action concerns, counted up to 100,000.")
    is_complete: bool = Field(description="Whether all were counted: a count ends after a second.")
    skipped: int = Field(description="Of the runs that `ids` names: those that the action does not concern.")
    by_status: dict[str, int] = Field(description="How many of those that match are in each status.")
    sample: list[RunId] = Field(description="The first five that would be changed.")


class BulkChange(AnswerModel):
    """An action on many runs. The tick works it off."""

    id: BulkId
    action: BulkAction
    status: Literal["running", "completed", "cancelled"]
    filter: dict[str, Any]
    reason: str | None
    from_step: str | None
    version: str | int | None
    total: int = Field(description="Runs that matched when it was created.")
    total_is_capped: bool = Field(description="Whether there were more: not all were counted.")
    changed: int
    skipped: int = Field(description="Runs that did not allow the action any more.")
    limit: int
    per_second: float | None
    created_at: AwareDatetime
    created_by: str | None
    finished_at: AwareDatetime | None
    duration_ms: float | None


class BulkChangeList(Paged):
    """Bulk changes, newest first."""

    bulk_changes: list[BulkChange]


class BulkRun(AnswerModel):
    """What became of one run."""

    run_id: RunId
    outcome: Outcome
    new_run_id: RunId | None = Field(description="What a rerun began.")
    error_code: str | None = Field(description="Why it was skipped.")
    error: str | None
    at: AwareDatetime


class BulkRunList(Paged):
    """The runs that a bulk change has come to, in the order of their ids."""

    runs: list[BulkRun]


class RedriveOutcomes(AnswerModel):
    """What became of the retries of a redrive, of the newest 2,000."""

    completed: int
    failed_again: int
    same_again: int = Field(description="Of those that failed again: with the same fingerprint.")
    ended_otherwise: int = Field(description="Cancelled or skipped, or their history is gone.")
    unended: int


class Redrive(AnswerModel):
    """The retry of many dead letters."""

    id: RedriveId
    status: Literal["running", "completed", "cancelled", "stopped"] = Field(
        description="`completed`: everything was retried, or skipped. `stopped`: it stopped by itself."
    )
    filter: dict[str, Any]
    total: int = Field(description="Dead letters that were open when the redrive was created.")
    retried: int
    skipped: int = Field(description="Dead letters that could not be retried and are still open.")
    created_at: AwareDatetime
    finished_at: AwareDatetime | None
    duration_ms: float | None
    created_by: str | None
    limit: int | None
    canary: int | None
    canary_ended_at: AwareDatetime | None = Field(description="Since then the others follow.")
    per_second: float | None
    stop_on_same_fingerprint: float | None
    stopped_because: str | None
    outcomes: RedriveOutcomes | None = Field(description="null in lists.")


class RedriveList(Paged):
    """Redrives, newest first."""

    redrives: list[Redrive]


class ChangedRuns(AnswerModel):
    """What an action did to the runs that match a filter."""

    matched: int = Field(description="Runs that match and that the action concerns, at most `limit`.")
    changed: int = Field(description="Those that it changed; 0 with `dryRun`.")
    runs: list[RunId] = Field(description="The first 20 of those that match, the oldest first.")
    is_dry_run: bool
    is_complete: bool = Field(description="false: more runs match; the same request goes on with them.")
