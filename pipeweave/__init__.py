"""The public names: `from pipeweave import task, pipeline, Schedule, Context, Retry, TaskError, Client, …`.

`import pipeweave` loads neither pydantic nor Celery, Flask or SQLAlchemy; the modules that need those
packages import them on first use. The modules next to this file (errors, ids, durations, …) are the base:
every room may import them, and they import no room.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pipeweave import errors
from pipeweave.authoring.adapter import action, adapter
from pipeweave.authoring.bodies import body
from pipeweave.authoring.context import Context, TaskResult
from pipeweave.authoring.deciding import otherwise, settle, transform, when
from pipeweave.authoring.looping import loop
from pipeweave.authoring.pipeline import Pipeline, pipeline, run_plain_calls_with
from pipeweave.authoring.placeholder import either
from pipeweave.authoring.retry import Retry
from pipeweave.authoring.schedule import Schedule
from pipeweave.authoring.secret_reference import secret
from pipeweave.authoring.suspend import Suspend
from pipeweave.authoring.task import task
from pipeweave.authoring.waiting import approval, sleep, sleep_until, wait_for_signal
from pipeweave.authoring.webhook import Webhook
from pipeweave.errors import PipeWeaveError, TaskError
from pipeweave.sandbox import Sandbox

if TYPE_CHECKING:
    from pipeweave.client import AsyncClient, Client
    from pipeweave.embedding import Orchestrator
    from pipeweave.enqueueing import enqueue, enqueue_async, enqueue_many, enqueue_many_async
    from pipeweave.http_worker import HttpWorker

__all__ = [
    "AsyncClient",
    "Client",
    "Context",
    "HttpWorker",
    "Orchestrator",
    "PipeWeaveError",
    "Retry",
    "Sandbox",
    "Schedule",
    "Suspend",
    "TaskError",
    "TaskResult",
    "Webhook",
    "action",
    "adapter",
    "approval",
    "body",
    "either",
    "enqueue",
    "enqueue_async",
    "enqueue_many",
    "enqueue_many_async",
    "errors",
    "loop",
    "otherwise",
    "pipeline",
    "secret",
    "settle",
    "sleep",
    "sleep_until",
    "task",
    "transform",
    "wait_for_signal",
    "when",
]


def __getattr__(name: str) -> Any:
    if name in ("AsyncClient", "Client"):
        from pipeweave import client

        return getattr(client, name)
    if name == "HttpWorker":
        from pipeweave import http_worker

        return http_worker.HttpWorker
    if name == "Orchestrator":
        from pipeweave import embedding

        return embedding.Orchestrator
    if name in ("enqueue", "enqueue_async", "enqueue_many", "enqueue_many_async"):
        from pipeweave import enqueueing

        return getattr(enqueueing, name)
    # With both, Python names what is spelt alike.
    here = sys.modules[__name__]
    raise AttributeError(f"module 'pipeweave' has no attribute {name!r}", name=name, obj=here)


def _run_here(called: Pipeline[..., Any], run_input: Any) -> Any:
    from pipeweave.testing import run_pipeline

    return run_pipeline(called, run_input).raise_error().output


run_plain_calls_with(_run_here)
