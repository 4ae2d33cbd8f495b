"""Models of the states of a run's steps, as columns."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from pipeweave.api.contract.query_parameters import Query
from pipeweave.orchestrator.documents.base import AnswerModel, RunId
from pipeweave.orchestrator.domain import RunStatus

_LETTERS = (
    "`p` pending, `r` ready, `q` queued, `R` running, `w` waiting, `c` completed, `f` failed, `t` timeout,"
    " `x` cancelled, `s` skipped"
)


class StepStatesQuery(Query):
    """From where on the states of steps are asked for."""

    after: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,400}$")] | None = Field(
        None, description="`cursor` of an earlier answer: only what has changed since. Absent: all steps."
    )


class ItemCounts(AnswerModel):
    """The items of a map."""

    total: int
    statuses: dict[str, int] = Field(description="How many items have which status, by its letter.")


class StepStates(AnswerModel):
    """The states of a run's steps. The columns go with `ordinals`; times are ms from the run's start."""

    id: RunId
    status: RunStatus
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    cursor: str = Field(description="Send it as `after` to get what changes from now on.")
    is_whole: bool = Field(description="Whether all steps are here, and not only those that have changed.")
    ordinals: list[int] = Field(description="The first step of the pipeline has ordinal 1.")
    statuses: str = Field(description=f"One letter for each: {_LETTERS}.")
    attempts: list[int]
    queued_ms: list[int | None]
    started_ms: list[int | None] = Field(description="The start of the latest attempt.")
    finished_ms: list[int | None]
    code_versions: list[int] = Field(description="Of the task's code.")
    items: dict[str, ItemCounts] = Field(description="By the ordinal of a map; only those counted anew.")
