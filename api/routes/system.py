"""Health, version and the OpenAPI document: open to everyone but for the version."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import orjson
from flask import current_app

from pipeweave.api.answers import Health, Info, Unhealthy
from pipeweave.api.endpoint import Answer, Call, Routes
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator import maintenance

routes = Routes("system")

_started = time.monotonic()


@routes.add(
    "GET",
    "/health",
    "Health",
    scopes=(),
    answers={200: (Health, "PostgreSQL answers."), 503: (Unhealthy, "PostgreSQL does not answer.")},
)
def health(call: Call) -> dict[str, Any] | Answer:
    """Whether PostgreSQL answers, whether new work is accepted, and how much is pending and running."""
    try:
        with call.reading() as tx:
            found = maintenance.state(tx)
    except PipeWeaveError as error:
        # The reason names hosts and ports; that is for the log, not for whoever passes by.
        return Answer({"status": "error", "error": error.title, "timestamp": _now()}, 503)
    mode = found["mode"]
    can_accept = mode == "running"
    return {
        "status": "ok",
        "database": "connected",
        "maintenance": {**found, "message": _MESSAGES[mode]},
        "canAcceptTasks": can_accept,
        "maintenanceMode": mode,
        "runningTasks": found["runningTasks"],
        "timestamp": _now(),
    }


_MESSAGES = {
    "running": "Everything is accepted.",
    "waiting_for_maintenance": "Nothing new is accepted; what is pending goes on.",
    "maintenance": "Nothing is pending or running, nothing is accepted.",
}


@routes.add("GET", "/api/info", "Version, mode and limits", answer=Info)
def info(call: Call) -> dict[str, Any]:
    """What this process is and how it is set up; no secrets."""
    settings = call.deployment.settings
    backends = [str(each["id"]) for each in settings.storage_backends] or ["local"]
    marked = [str(each["id"]) for each in settings.storage_backends if each.get("isDefault")]
    return {
        "version": version("pipeweave"),
        "mode": settings.mode,
        "maxConcurrency": settings.max_concurrency,
        "pollIntervalMs": settings.poll_interval_ms,
        "storageBackends": backends,
        "defaultStorageBackend": settings.default_storage_backend_id or (marked or backends)[0],
        "uptime": round(time.monotonic() - _started, 3),
        "timestamp": _now(),
    }


@routes.add("GET", "/api/openapi.json", "This document", scopes=())
def document(call: Call) -> bytes:
    """The OpenAPI 3.1 document of this API."""
    return orjson.dumps(current_app.extensions["pipeweave.openapi"]())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
