"""Sets up one process: its connections, the database schema, logs and memory. Brings together what each room
tells the audit of its objects.

Called by `api`, `workers`, the command line, the tick and diagnosis. This room must never decide how a run
goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeweave.orchestrator.deployment.deployment import Deployment

__all__ = ["Deployment"]


def __getattr__(name: str) -> Any:
    # On demand: a process that only migrates or only writes logs loads neither Celery nor the engine.
    if name == "Deployment":
        from pipeweave.orchestrator.deployment.deployment import Deployment

        return Deployment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
