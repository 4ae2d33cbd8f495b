"""Query parameters: what a list may be narrowed to, and which part of it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pipeweave.api.contract.requests import MAX_INT32, Name
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus
from pipeweave.orchestrator.store.keyset import DEFAULT_LIMIT, MAX_LIMIT, Page


def _digits(value: Any) -> Any:
    """A query parameter is text; only plain digits are a whole number."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    return value


def _truth(value: Any) -> Any:
    """Only `true` and `false` are truth values."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _rfc3339(value: Any) -> Any:
    if isinstance(value, str) and not _MOMENT.match(value):
        raise ValueError("Input should be a time such as 2026-11-20T12:00:00Z")
    return value


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)

# After the bounds, as in requests.py.
DIGITS = BeforeValidator(_digits)
# Not strict: text is all a query parameter can be.
Moment = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_rfc3339)]
OpenStatus = Literal["pending", "ready", "queued", "running", "waiting"]


class Query(BaseModel):
    """Query parameters: known ones only, each at most once."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel, frozen=True)


class PageQuery(Query):
    """Part of a list."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), DIGITS] = Field(
        DEFAULT_LIMIT, description="Rows at most."
    )
    cursor: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,400}$")] | None = Field(
        None, description="`nextCursor` of the page before, with the same filters."
    )

    def page(self) -> Page:
        """As the queries take it."""
        return Page(self.limit, self.cursor)

    def named(self, name: str, found: dict[str, Any]) -> dict[str, Any]:
        """The answer of a list: the rows under their name, and the cursor of the next page."""
        return {name: found["items"], "nextCursor": found["nextCursor"]}


class VersionQuery(Query):
    """Which version."""

    version: Annotated[int, Field(ge=1, le=MAX_INT32), DIGITS] | None = Field(
        None, description="Absent: the newest."
    )


class ValuesQuery(Query):
    """Whether large values are wanted."""

    load: Annotated[bool, BeforeValidator(_truth)] = Field(
        False, description="`true`: fetch large values from storage instead of saying where they are."
    )


class _Filtered(PageQuery):
    def filters(self) -> dict[str, Any]:
        """The filters that were given, as the queries take them."""
        given = self.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
        return {name: str(value) if isinstance(value, str) else value for name, value in given.items()}


class RunsQuery(_Filtered):
    """Which runs."""

    status: Annotated[RunStatus, Field(strict=False)] | None = None
    pipeline_id: Name | None = None
    created_after: Moment | None = Field(None, description="Created then or later.")
    created_before: Moment | None = Field(None, description="Created earlier.")


class TaskRunsQuery(_Filtered):
    """Which task runs of a run."""

    status: Annotated[TaskStatus, Field(strict=False)] | None = None
    step_id: Name | None = None


class EventsQuery(_Filtered):
    """Which events of a run."""

    type: Annotated[str, Field(pattern="^[a-z_]{1,50}[.][a-z_]{1,50}$")] | None = None


class QueueItemsQuery(_Filtered):
    """Which open task runs."""

    status: OpenStatus | None = None
    task_id: Name | None = None
