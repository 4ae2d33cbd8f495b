"""Models of the requests about workers."""

from __future__ import annotations

from pydantic import Field

from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import MAX_REASON, Name, Request
from pipeweave.orchestrator.documents.workers import State


class WorkersQuery(PageQuery):
    """Filters of the list of workers."""

    state: State | None = None
    service: Name | None = Field(None, description="Only the workers of this service.")


class DrainRequest(Request):
    """Why a worker is drained."""

    reason: str | None = Field(None, max_length=MAX_REASON, description="Shown wherever the worker is.")


class ResumeWorkerRequest(Request):
    """Nothing needs to be said."""
