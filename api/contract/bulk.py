"""Models of bulk changes: cancel, pause, resume, rerun or retry many runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave import ids
from pipeweave.api.contract.dead_letters import Time
from pipeweave.api.contract.query_parameters import MetaEntry, PageQuery
from pipeweave.api.contract.requests import MAX_INT32, MAX_REASON, MAX_TOKEN, WHOLE, Name, Request
from pipeweave.api.contract.reruns import Version
from pipeweave.api.contract.run_changes import MAX_IDS
from pipeweave.orchestrator.documents.base import AnswerModel, Paged, RunId, type_id_pattern
from pipeweave.orchestrator.documents.parts import TriggerKind
from pipeweave.orchestrator.domain import RunStatus
from pipeweave.orchestrator.operations import MOST_RUNS, BulkAction, BulkRequest, Selection

BulkId = Annotated[str, Field(pattern=type_id_pattern(ids.BULK))]
Outcome = Literal["changed", "skipped"]


class BulkFilter(Request):
    """Which runs, as the list of runs filters them; at least one filter is required."""

    ids: Annotated[list[RunId], Field(min_length=1, max_length=MAX_IDS)] | None = Field(
        None, description="Only these runs. Those that the action does not concern do not count."
    )
    status: Annotated[list[Annotated[RunStatus, Field(strict=False)]], Field(max_length=len(RunStatus))] = (
        Field([], description="In one of these statuses.")
    )
    pipeline_id: Annotated[list[Name], Field(max_length=10)] = Field(
        [], description="Of one of these pipelines."
    )
    triggered_by: TriggerKind | None = Field(None, description="Only runs that such a thing began.")
    created_after: Time | None = Field(None, description="Created at this time or later.")
    created_before: Time | None = Field(None, description="Created before this time.")
    text: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="With this text, as in the list of runs."
    )
    meta: Annotated[list[MetaEntry], Field(max_length=10)] = Field(
        [], description="With these values in their metadata, each as `key=value`."
    )
    version: Annotated[int, Field(ge=1, le=MAX_INT32), WHOLE] | None = Field(
        None, description="Of this version of their pipeline."
    )
    min_ms: Annotated[int, Field(ge=0, le=10**12), WHOLE] | None = Field(
        None, description="That took so long (ms), or have been running for so long."
    )
    task_id: Name | None = Field(None, description="With a step that is this task.")

    def selection(self) -> Selection:
        """The filter in the form that the orchestrator takes."""
        return Selection.of_json(self.model_dump(mode="json", by_alias=True))


class BulkChangeRequest(Request):
    """Do an action to many runs. Runs that begin later are not meant."""

    action: Annotated[
        BulkAction,
        Field(
            strict=False,
            description="`rerun` runs those again that have ended, each as a new run. `retry` retries the"
            " open dead letters of runs, which go on.",
        ),
    ]
    filter: BulkFilter
    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = Field(
        None, description="Of a cancel or a pause: stored with each run."
    )
    from_step: Name | None = Field(None, description="Of a rerun: the step to begin at, in each of them.")
    version: Version | None = Field(
        None, description="Of a rerun: `same` (as without it), `latest`, or the number of a version."
    )
    limit: Annotated[int, Field(ge=1, le=MOST_RUNS), WHOLE] = Field(
        MOST_RUNS, description="The largest number of runs that are changed."
    )
    per_second: Annotated[float, Field(gt=0, le=1_000)] | None = Field(
        None, description="Runs that are changed in a second, at most."
    )
    dry_run: bool = Field(False, description="Only count the runs: nothing is changed.")
    idempotency_key: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)] | None = Field(
        None, description="A second request with the same key finds the bulk change of the first."
    )

    def request(self, key: str | None, by: str | None) -> BulkRequest:
        """The request in the form that the orchestrator takes."""
        return BulkRequest(
            self.action,
            self.filter.selection(),
            self.reason,
            self.from_step,
            self.version,
            self.limit,
            self.per_second,
            key,
            by,
        )


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


class BulkRunsQuery(PageQuery):
    """Parameters of the list of the runs of a bulk change."""

    outcome: Outcome | None = Field(None, description="Only these.")
