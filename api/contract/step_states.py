"""Models of the query parameters of the states of a run's steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeweave.api.contract.query_parameters import Query


class StepStatesQuery(Query):
    """From where on the states of steps are asked for."""

    after: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,400}$")] | None = Field(
        None, description="`cursor` of an earlier answer: only what has changed since. Absent: all steps."
    )
