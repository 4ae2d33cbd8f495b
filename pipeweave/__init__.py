"""What users import: `from pipeweave import task, pipeline, Context, Retry, TaskResult, TaskError, Client`.

Importing it brings neither pydantic nor Celery, Flask or SQLAlchemy: those are loaded by what needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeweave import errors
from pipeweave.authoring.context import Context, TaskResult

# At once, not on demand: a submodule of the same name would otherwise take the name over when it is imported.
from pipeweave.authoring.pipeline import pipeline
from pipeweave.authoring.retry import Retry
from pipeweave.authoring.task import task
from pipeweave.errors import PipeWeaveError, TaskError

if TYPE_CHECKING:
    from pipeweave.client import Client

__all__ = [
    "Client",
    "Context",
    "PipeWeaveError",
    "Retry",
    "TaskError",
    "TaskResult",
    "errors",
    "pipeline",
    "task",
]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from pipeweave.client import Client

        return Client
    raise AttributeError(f"module 'pipeweave' has no attribute {name!r}")
