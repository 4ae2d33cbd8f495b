"""Maintenance of the whole deployment: ask for it, begin it, leave it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeweave.api.contract.answers import MaintenanceState
from pipeweave.api.contract.requests import MaintenanceRequest
from pipeweave.api.http.endpoint import Call, Routes
from pipeweave.errors import Conflict
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.security.access_tokens import ADMIN

routes = Routes("maintenance")

# What stops one tenant stops all: nobody may who is not everyone's administrator.
_ALL: dict[str, Any] = {"scopes": (ADMIN,), "is_for_all": True, "answer": MaintenanceState}
_VERB: dict[str, Any] = _ALL | {
    "body": MaintenanceRequest,
    "is_body_optional": True,
    "example": {"reason": "PostgreSQL gets a new version"},
}


@routes.add("GET", "/api/maintenance", "Show the mode and what is open", **_ALL)
def get_maintenance(call: Call) -> dict[str, Any]:
    """The mode is the whole deployment's: open runs of all tenants are shown, the oldest 20."""
    with call.reading() as tx:
        return maintenance_mode.detailed_state(tx)


@routes.add("POST", "/api/maintenance/request", "Accept nothing new", **_VERB)
def request_maintenance(call: Call, body: MaintenanceRequest) -> dict[str, Any]:
    """Triggers, standalone tasks and retries of dead letters answer 503 from now on. What is open goes on,
    with retries and following steps; with the end of the last run, maintenance begins by itself.

    Changes nothing where maintenance was requested or has begun already.
    """
    return _moved(call, maintenance_mode.request, body)


@routes.add("POST", "/api/maintenance/enter", "Begin maintenance", errors=(Conflict,), **_VERB)
def enter_maintenance(call: Call, body: MaintenanceRequest) -> dict[str, Any]:
    """Begins when no run is open; otherwise nothing changes, and the answer says what is open. 409 when it
    was not requested.
    """
    return _moved(call, maintenance_mode.enter, body)


@routes.add("POST", "/api/maintenance/exit", "Accept everything again", errors=(Conflict,), **_VERB)
def exit_maintenance(call: Call, body: MaintenanceRequest) -> dict[str, Any]:
    """Whether maintenance had begun or was only waited for. 409 when it was not requested."""
    return _moved(call, maintenance_mode.leave, body)


def _moved(call: Call, verb: Callable[..., None], body: MaintenanceRequest) -> dict[str, Any]:
    call.change(lambda tx: verb(tx, body.reason))
    with call.reading() as tx:
        return maintenance_mode.detailed_state(tx)
