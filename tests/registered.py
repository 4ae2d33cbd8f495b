"""Services, tasks and pipelines for tests, in few words."""

from __future__ import annotations

import hashlib
from typing import Any

from pipeweave.document import parse_spec
from pipeweave.orchestrator import pipelines, registry
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.registration import Registration, TaskRegistration
from pipeweave.orchestrator.registry import Registered
from pipeweave.spec import PipelineSpec


def a_task(id: str, code: str = "first", **options: Any) -> TaskRegistration:
    """A task whose code hash follows from `code`."""
    return TaskRegistration(id, hashlib.sha256(code.encode()).hexdigest(), **options)


def a_service(*tasks: TaskRegistration | str, id: str = "python", version: str = "1.0.0") -> Registration:
    """A Python service with these tasks."""
    listed = [a_task(each) if isinstance(each, str) else each for each in tasks]
    return Registration(id, version, tasks=listed)


def register(tx: Transaction, tenant: str, *tasks: TaskRegistration | str, **service: Any) -> Registered:
    """Register a Python service with these tasks."""
    return registry.register(tx, tenant, a_service(*tasks, **service))


def a_chain(*tasks: str, id: str = "chain", **options: Any) -> PipelineSpec:
    """A pipeline whose steps follow each other."""
    return parse_spec({"id": id, "steps": [{"task": each} for each in tasks], **options})


def a_pipeline(tx: Transaction, tenant: str, *tasks: str, id: str = "chain") -> PipelineSpec:
    """A stored chain of tasks that are registered with it."""
    register(tx, tenant, *tasks)
    spec = a_chain(*tasks, id=id)
    pipelines.store(tx, tenant, spec, source="api")
    return spec
