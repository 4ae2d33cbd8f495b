"""Documents of named views."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, TypeId
from pipeweave.orchestrator.registry.views import MOST_VIEWS, VIEW_ID

Screen = Annotated[Literal["runs", "audit"], Field(description="The screen of the dashboard.")]


class NamedView(AnswerModel):
    """Filters of a screen, under a name."""

    id: Annotated[str, TypeId(VIEW_ID)]
    screen: Screen
    name: str
    query: str
    saved_by: str = Field(description="The name of the token that it was saved with.")
    saved_at: AwareDatetime


class ViewList(AnswerModel):
    """The views of a tenant, by name."""

    views: Annotated[list[NamedView], Field(max_length=MOST_VIEWS)]
