"""Models of the requests of bulk changes: cancel, pause, resume, rerun or retry many runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeweave.api.contract.dead_letters import Time
from pipeweave.api.contract.query_parameters import MetaEntry, PageQuery
from pipeweave.api.contract.requests import MAX_INT32, MAX_REASON, MAX_TOKEN, WHOLE, Name, Request
from pipeweave.api.contract.reruns import Version
from pipeweave.api.contract.run_changes import MAX_IDS
from pipeweave.orchestrator.documents.base import RunId
from pipeweave.orchestrator.documents.operations import Outcome
from pipeweave.orchestrator.documents.parts import TriggerKind
from pipeweave.orchestrator.domain import RunStatus
from pipeweave.orchestrator.operations import MOST_RUNS, BulkAction, BulkRequest, Selection


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


class BulkRunsQuery(PageQuery):
    """Parameters of the list of the runs of a bulk change."""

    outcome: Outcome | None = Field(None, description="Only these.")
