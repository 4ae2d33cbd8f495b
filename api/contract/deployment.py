"""Models of the requests about a deployment as a whole."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeweave.api.contract.requests import WHOLE, Request
from pipeweave.orchestrator.diagnosis import history


class DoctorRequest(Request):
    """Check the deployment."""


class SampleRequest(Request):
    """Verify a sample of the history."""

    limit: Annotated[int, Field(ge=1, le=history.MOST_RUNS), WHOLE] = Field(
        50, description="Runs, the newest."
    )
