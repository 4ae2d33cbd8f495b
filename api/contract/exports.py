"""Models of the query parameters of exports."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from pipeweave import ids
from pipeweave.api.contract.answers import type_id_pattern
from pipeweave.api.contract.query_parameters import Moment, Query, truth
from pipeweave.api.contract.requests import Name
from pipeweave.api.contract.run_answers import TriggerKind
from pipeweave.orchestrator.domain import RunStatus
from pipeweave.orchestrator.export import ChosenRuns, Position

RunIdText = Annotated[str, Field(pattern=type_id_pattern(ids.RUN))]


def _checked(cursor: str) -> str:
    if not Position.is_cursor(cursor):
        raise ValueError("is not a cursor of an export")
    return cursor


ExportCursor = Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,400}$"), AfterValidator(_checked)]


class ExportQuery(Query):
    """Which runs an export is about, and where it goes on."""

    run: RunIdText | None = Field(None, description="Only this run.")
    status: Annotated[RunStatus, Field(strict=False)] | None = Field(
        None, description="Only runs in this status."
    )
    pipeline_id: Name | None = None
    created_after: Moment | None = Field(None, description="Created at this time or later.")
    created_before: Moment | None = Field(None, description="Created before this time.")
    triggered_by: TriggerKind | None = Field(None, description="Only runs that such a thing began.")
    standalone: Annotated[bool, BeforeValidator(truth)] = Field(
        False, description="`true`: the runs of standalone tasks instead of those of pipelines."
    )
    after: ExportCursor | None = Field(
        None, description="The last `cursor` of an export that broke off, with the same filters."
    )

    def chosen(self) -> ChosenRuns:
        """The filters in the form that the orchestrator takes."""
        return ChosenRuns(
            None if self.run is None else ids.read(ids.RUN, self.run),
            None if self.status is None else self.status.value,
            self.pipeline_id,
            self.created_after,
            self.created_before,
            self.triggered_by,
            self.standalone,
        )
