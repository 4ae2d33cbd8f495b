"""Models of the query parameters of exports."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from pipeweave import ids
from pipeweave.api.contract.query_parameters import RunFilterQuery, truth
from pipeweave.orchestrator.documents.base import type_id_pattern
from pipeweave.orchestrator.export import ChosenRuns, Position

RunIdText = Annotated[str, Field(pattern=type_id_pattern(ids.RUN))]


def _checked(cursor: str) -> str:
    if not Position.is_cursor(cursor):
        raise ValueError("is not a cursor of an export")
    return cursor


ExportCursor = Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,400}$"), AfterValidator(_checked)]


class ExportQuery(RunFilterQuery):
    """Which runs an export is about, as the list of runs filters them, and where it goes on."""

    run: RunIdText | None = Field(None, description="Only this run.")
    standalone: Annotated[bool, BeforeValidator(truth)] = Field(
        False, description="`true`: the runs of standalone tasks instead of those of pipelines."
    )
    after: ExportCursor | None = Field(
        None, description="The last `cursor` of an export that broke off, with the same filters."
    )

    def chosen(self) -> ChosenRuns:
        """The filters in the form that the orchestrator takes."""
        run = None if self.run is None else ids.read(ids.RUN, self.run)
        return ChosenRuns(run, self.run_filter(), self.standalone)
