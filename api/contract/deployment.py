"""Models of the requests about a deployment as a whole."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipeweave.api.contract.requests import WHOLE, Request
from pipeweave.orchestrator.diagnosis import history
from pipeweave.orchestrator.queueing import deployment_limit


class DoctorRequest(Request):
    """Check the deployment."""


class DeploymentLimitRequest(Request):
    """Limit the task runs of the whole deployment that are at work."""

    max_running_task_runs: Annotated[int, Field(ge=1, le=deployment_limit.MAX_LIMIT), WHOLE] | None = Field(
        description="Task runs of all tenants that are queued for a worker or running; null: no limit."
    )


class SampleRequest(Request):
    """Verify a sample of the history."""

    limit: Annotated[int, Field(ge=1, le=history.MOST_RUNS), WHOLE] = Field(
        50, description="Runs, the newest."
    )
