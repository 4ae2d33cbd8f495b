"""Models of named views."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipeweave.api.contract.query_parameters import Query
from pipeweave.api.contract.requests import Request
from pipeweave.orchestrator.documents.base import AnswerModel
from pipeweave.orchestrator.documents.views import Screen

# One line that neither begins nor ends with a space.
ViewName = Annotated[
    str, Field(pattern=r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$", max_length=80)
]
# What is left of a query when everything else is written with per cent signs.
ScreenQuery = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9._~%+&=:@,!*/-]+$", max_length=2_000, examples=["status=failed"])
]


class ViewsQuery(Query):
    """Which views to list."""

    screen: Screen | None = None


class ViewRequest(Request):
    """Save a view."""

    screen: Screen
    name: ViewName = Field(description="One of this screen with this name is replaced.")
    query: ScreenQuery = Field(description="The parameters of the screen's address, e.g. `status=failed`.")


class DeletedView(AnswerModel):
    """The view is deleted."""

    id: str
    deleted: Literal[True]
