"""Models of the query parameters of enqueued runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeweave.api.contract.query_parameters import PageQuery

EnqueuedStatus = Literal["waiting", "refused", "repeated"]


class EnqueuedQuery(PageQuery):
    """Which enqueued runs."""

    status: EnqueuedStatus = Field(
        "waiting",
        description="`waiting`: not started yet. `refused`: it never will. `repeated`: a run before has its"
        " token, pipeline and input.",
    )
