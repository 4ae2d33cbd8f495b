"""Endpoints of the deployment: health, version, OpenAPI document, and the tick where no beat runs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from flask import current_app
from pydantic.alias_generators import to_camel

from pipeweave.api.contract.answers import Health, Info, TickAnswer, Unhealthy
from pipeweave.api.http import Answer, Call, Routes
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.diagnosis import health as health_check
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.queueing import MAINTENANCE, RUNNING, mode
from pipeweave.orchestrator.reading import maintenance
from pipeweave.orchestrator.recovery import tick, tick_status
from pipeweave.orchestrator.security import TICK

routes = Routes("system")

_started = time.monotonic()


@routes.add(
    "GET",
    "/health",
    "Show the health of the deployment",
    scopes=(),
    answers={200: (Health, "PostgreSQL answers."), 503: (Unhealthy, "PostgreSQL does not answer.")},
    tells_more=True,
)
def health(call: Call) -> dict[str, Any] | Answer:
    """Whether PostgreSQL answers and new work is accepted. The cost does not grow with the open work.

    `degraded` means that the tick is missed or its chores fail: runs continue, but losses are not repaired.

    With a token that may read every tenant, the answer also has the reason of maintenance and the numbers of
    pending and running task runs, which are counted. With another token, it is the answer without a token.
    """
    try:
        report = health_check.health(call.deployment.database)
    except PipeWeaveError as error:
        # The detail names hosts and ports. It belongs in the log, not in an open answer.
        return Answer({"status": "error", "error": error.title, "timestamp": _now()}, 503)
    here_for = timedelta(seconds=time.monotonic() - _started)
    degraded = tick_status.complaint(report.last_tick, call.deployment.settings, watched_for=here_for)
    counts = _counts(call) if call.sees_all else {}
    return {
        "status": "degraded" if degraded else "ok",
        "degraded": degraded,
        "lastTickAt": iso(report.last_tick.at),
        "failingChores": list(report.last_tick.failing),
        "database": "connected",
        "maintenance": {
            "mode": report.mode,
            "modeChangedAt": iso(report.mode_changed_at),
            "reason": report.reason if call.sees_all else None,
            "message": report.message,
            **counts,
        },
        "canAcceptTasks": report.mode == RUNNING,
        "maintenanceMode": report.mode,
        **({"runningTasks": counts["runningTasks"]} if counts else {}),
        "timestamp": _now(),
    }


_COUNTS = ("canEnterMaintenance", "pendingTasks", "runningTasks")


def _counts(call: Call) -> dict[str, Any]:
    """What is counted over all tenants; empty when that takes too long."""
    try:
        with call.reading() as tx:
            state = maintenance.state(tx)
    except PipeWeaveError:
        return {}
    return {name: state[name] for name in _COUNTS}


@routes.add("POST", "/api/tick", "Run one tick", scopes=(TICK,), answer=TickAnswer)
def run_tick(call: Call) -> dict[str, Any]:
    """Run one tick, as beat does each second: one bounded pass over all tenants that starts due work and
    repairs losses.

    A token with the scope `orchestrator:admin` may call it if it is valid for every tenant.

    With `MODE=serverless`, this call replaces beat. Concurrent ticks are harmless: one of them works, the
    others process nothing. During maintenance, none does.
    """
    ticked = tick.run_once(call.deployment)
    done = ticked.counts()
    processed = sum(done.values())
    with call.reading() as tx:
        mode_now = mode(tx)
    if ticked.is_elsewhere:
        message = "Another tick is under way."
    elif mode_now == MAINTENANCE:
        message = "Nothing is done during maintenance."
    else:
        message = "Work was due, or was recovered." if processed else "Nothing was due, and nothing was lost."
    if ticked.failed_chores:
        message += f" Some chores failed: {', '.join(ticked.failed_chores)}."
    return {
        "status": "ok",
        "processed": processed,
        "did": {to_camel(kind): number for kind, number in done.items()},
        "failedChores": list(ticked.failed_chores),
        "message": message,
        "timestamp": _now(),
    }


@routes.add("GET", "/api/info", "Show version, mode and limits", answer=Info)
def info(call: Call) -> dict[str, Any]:
    """The version and configuration of this API process, without secrets."""
    settings = call.deployment.settings
    backends = call.deployment.values.backends
    return {
        "version": version("pipeweave"),
        "mode": settings.mode,
        "maxConcurrency": settings.max_concurrency,
        "pollIntervalMs": settings.poll_interval_ms,
        "storageBackends": list(backends.ids),
        "defaultStorageBackend": backends.default_id,
        "uptime": round(time.monotonic() - _started, 3),
        "timestamp": _now(),
    }


@routes.add("GET", "/api/openapi.json", "Show this document", scopes=())
def document(call: Call) -> bytes:
    """The OpenAPI 3.1 document of this API."""
    content: bytes = current_app.extensions["pipeweave.openapi_json"]()
    return content


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
