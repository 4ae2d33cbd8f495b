"""Models of the query parameters of the time of a run: its timeline, and the items of its maps."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pipeweave.api.contract.query_parameters import DIGITS, PageQuery
from pipeweave.orchestrator.domain import TaskStatus
from pipeweave.size_limits import MAX_MAP_ITEMS

BINS = "Numbers of each lane, over the life of its map."
DEFAULT_BINS, MOST_BINS = 120, 1_000
Index = Annotated[int, Field(ge=0, le=MAX_MAP_ITEMS - 1), DIGITS]
Bins = Annotated[int, Field(ge=1, le=MOST_BINS), DIGITS]


class TimelineQuery(PageQuery):
    """Parameters of the timeline of a run; `limit` counts steps."""

    bins: Bins = Field(DEFAULT_BINS, description=BINS)


class ItemsQuery(PageQuery):
    """Which items of a map, and as what."""

    view: Literal["list", "matrix", "lane"] = Field("list", description="What the answer has.")
    bins: Bins = Field(DEFAULT_BINS, description="Of a lane: its numbers.")
    order: Literal["index", "slowest"] = Field("index", description="Of a list.")
    first: Index | None = Field(None, description="Of a list: no item before this index.")
    last: Index | None = Field(None, description="Of a list: no item after this index.")
    status: Annotated[TaskStatus, Field(strict=False)] | None = Field(None, description="Of a list.")
    error_code: Annotated[str, Field(pattern="^[A-Za-z0-9_.:-]{1,200}$")] | None = Field(
        None, description="Of a list: items whose error has this code."
    )

    def filters(self) -> dict[str, Any]:
        """The given parameters, as `timeline.items` names them."""
        parameters = self.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
        return {name: str(value) if isinstance(value, str) else value for name, value in parameters.items()}
