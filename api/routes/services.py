"""Endpoints of services: list and show them with their tasks, and register them."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract import (
    FlatTask,
    NestedTask,
    PageQuery,
    RegisteredAnswer,
    RegisterRequest,
    ServiceAnswer,
    ServiceList,
    TaskList,
    TaskOptions,
)
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import NotFound, TaskOwnedElsewhere
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.registry import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import WORKER, WRITE

routes = Routes("services")
SERVICE = {"id": PathId(None, "The service's id.")}

_EXAMPLE = {
    "serviceId": "mailer",
    "kind": "python",
    "version": "1.4.0",
    "tasks": [
        {"id": "send-mail", "codeHash": "9f86d081884c7d65", "timeout": 60, "retries": 3, "rateLimit": "100/m"}
    ],
}


@routes.add("GET", "/api/services", "List the services", query=PageQuery, answer=ServiceList)
def list_services(call: Call, query: PageQuery) -> dict[str, Any]:
    """Every registered service, in the order of their ids."""
    with call.reading() as tx:
        return query.named("services", reading.services(tx, call.tenant, query.page()))


@routes.add(
    "GET", "/api/services/{id}", "Show a service", ids=SERVICE, answer=ServiceAnswer, errors=(NotFound,)
)
def get_service(call: Call, id: str) -> dict[str, Any]:
    """One service with the numbers of its tasks and workers."""
    with call.reading() as tx:
        return {"service": reading.service(tx, call.tenant, id)}


@routes.add(
    "GET",
    "/api/services/{id}/tasks",
    "List a service's tasks",
    ids=SERVICE,
    query=PageQuery,
    answer=TaskList,
    errors=(NotFound,),
)
def list_service_tasks(call: Call, id: str, query: PageQuery) -> dict[str, Any]:
    """Tasks of a service with code hash and code version, in the order of their ids."""
    with call.reading() as tx:
        return query.named("tasks", reading.tasks(tx, call.tenant, query.page(), service_id=id))


@routes.add(
    "POST",
    "/api/services",
    "Register a service",
    scopes=(WORKER, WRITE),
    body=RegisterRequest,
    answer=RegisteredAnswer,
    errors=(TaskOwnedElsewhere,),
    example=_EXAMPLE,
)
def register(call: Call, body: RegisterRequest) -> dict[str, Any]:
    """Store a service and its tasks in their present form.

    Python workers do this themselves when they start; a Python service that is registered here before that
    accepts runs, which wait for its first worker. The tasks of an HTTP service (`baseUrl`) are stored, but
    this version cannot call them: a trigger answers 409.

    A changed code hash raises the task's code version. If the version of an HTTP service changed, its tasks
    that are missing in the request are removed, and their task runs that have not started are cancelled. A
    Python service whose Celery workers are alive is registered by them alone: then the answer is 409.
    """
    registration = Registration(
        service_id=body.service_id,
        version=body.version,
        kind=body.kind or ("python" if body.base_url is None else "http"),
        base_url=body.base_url,
        tasks=[_task(task, call.deployment.settings.idempotency_ttl_seconds) for task in body.tasks],
    )
    return call.change(lambda tx: service_registration.register(tx, call.tenant, registration)).to_json()


@routes.add(
    "POST",
    "/api/register",
    "Register a service (older path)",
    scopes=(WORKER, WRITE),
    body=RegisterRequest,
    answer=RegisteredAnswer,
    errors=(TaskOwnedElsewhere,),
    example=_EXAMPLE,
)
def register_alias(call: Call, body: RegisterRequest) -> dict[str, Any]:
    """The same as `POST /api/services`, for workers that use this older path."""
    return register(call, body)


def _task(task: FlatTask | NestedTask, idempotency_ttl: int) -> TaskRegistration:
    options: TaskOptions = task.config if isinstance(task, NestedTask) else task
    given = {name: getattr(options, name) for name in TaskOptions.model_fields}
    given["idempotency_ttl"] = given["idempotency_ttl"] or idempotency_ttl
    task_id = task.task_id if isinstance(task, NestedTask) else task.id
    return TaskRegistration(id=task_id, code_hash=task.code_hash.removeprefix("sha256:"), **given)
