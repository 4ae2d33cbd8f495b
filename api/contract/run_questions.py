"""Models of the requests that verify and explain a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeweave.api.contract.query_parameters import DIGITS, Query
from pipeweave.api.contract.requests import Request


class VerifyRequest(Request):
    """Verify a run."""


class StateAtQuery(Query):
    """At which event of its history a run is wanted."""

    seq: Annotated[int, Field(ge=0, le=2**53), DIGITS] = Field(
        description="The `seq` of an event: what the run was once this event had happened."
    )
