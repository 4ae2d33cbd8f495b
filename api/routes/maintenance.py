"""Endpoints of the maintenance mode of the whole deployment: show, request, enter and exit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeweave.api.contract.requests import MaintenanceRequest
from pipeweave.api.http import Call, Routes
from pipeweave.errors import Conflict
from pipeweave.orchestrator.documents.maintenance import MaintenanceState
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.reading import maintenance
from pipeweave.orchestrator.security import ADMIN

routes = Routes("maintenance")

# Maintenance stops all tenants, so it takes an administrator's token that is valid for all tenants.
_ALL: dict[str, Any] = {"scopes": (ADMIN,), "is_for_all": True, "answer": MaintenanceState}
_VERB: dict[str, Any] = _ALL | {
    "body": MaintenanceRequest,
    "is_body_optional": True,
    "example": {"reason": "PostgreSQL gets a new version"},
}


@routes.add("GET", "/api/maintenance", "Show the mode and the open runs", **_ALL)
def get_maintenance(call: Call) -> dict[str, Any]:
    """The mode of the whole deployment, and the oldest 20 open runs of all tenants."""
    with call.reading() as tx:
        return maintenance.detailed_state(tx)


@routes.add("POST", "/api/maintenance/request", "Request maintenance", **_VERB)
def request_maintenance(call: Call, body: MaintenanceRequest) -> dict[str, Any]:
    """From now on, triggers, standalone tasks and retries of dead letters answer 503.

    Open runs continue, with their retries and following steps. When the last open run ends, maintenance
    begins on its own.

    Changes nothing if maintenance was already requested or has begun.
    """
    return _moved(call, maintenance_mode.request, body)


@routes.add("POST", "/api/maintenance/enter", "Begin maintenance", errors=(Conflict,), **_VERB)
def enter_maintenance(call: Call, body: MaintenanceRequest) -> dict[str, Any]:
    """Begin maintenance if no run is open. Otherwise nothing changes, and the answer lists the open runs.
    Answers 409 when maintenance was not requested.
    """
    return _moved(call, maintenance_mode.enter, body)


@routes.add("POST", "/api/maintenance/exit", "End maintenance", errors=(Conflict,), **_VERB)
def exit_maintenance(call: Call, body: MaintenanceRequest) -> dict[str, Any]:
    """End maintenance, or the wait for it. Answers 409 when maintenance was not requested."""
    return _moved(call, maintenance_mode.leave, body)


def _moved(call: Call, verb: Callable[..., None], body: MaintenanceRequest) -> dict[str, Any]:
    call.change(lambda tx: verb(tx, body.reason))
    with call.reading() as tx:
        return maintenance.detailed_state(tx)
