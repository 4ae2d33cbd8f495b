"""Endpoints of services: list and show them with their tasks, and register them."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.answers import RegisteredAnswer
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import FlatTask, NestedTask, RegisterRequest, TaskOptions
from pipeweave.api.contract.worker_reports import InstanceQuery, RemovedInstance, ServiceSettings
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import (
    Conflict,
    Forbidden,
    NotFound,
    PipelineUnsigned,
    TargetRefused,
    TaskOwnedElsewhere,
)
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.dispatch import address_of, tokens
from pipeweave.orchestrator.documents.services import ServiceAnswer, ServiceList
from pipeweave.orchestrator.documents.tasks import TaskList
from pipeweave.orchestrator.registry import Registration, TaskRegistration, instances, service_settings
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import WORKER, WRITE
from pipeweave.sending import Networks

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
    errors=(TaskOwnedElsewhere, TargetRefused, PipelineUnsigned),
    example=_EXAMPLE,
)
def register(call: Call, body: RegisterRequest) -> dict[str, Any]:
    """Store a service and its tasks in their present form.

    An HTTP worker (`baseUrl`) registers when it starts, and may do so again at any time; each URL is an
    instance of its service, and a dispatch goes to one of them. Python workers register themselves; a Python
    service that is registered here before that accepts runs, which wait for its first worker.

    A changed code hash raises the task's code version. If the version of an HTTP service changed, its tasks
    that neither the request nor another live instance names are removed, and their task runs that have not
    started are cancelled. A Python service whose Celery workers are alive is registered by them alone: then
    the answer is 409.
    """
    _check_service(call, body.service_id)
    settings = call.deployment.settings
    registration = Registration(
        service_id=body.service_id,
        version=body.version,
        kind=body.kind or ("python" if body.base_url is None else "http"),
        base_url=body.base_url,
        address=_address(call, body),
        token_format=body.token_format,
        storage_access=body.storage_access,
        tasks=[_task(task, settings.idempotency_ttl_seconds) for task in body.tasks],
    )
    return call.change(lambda tx: service_registration.register(tx, call.tenant, registration)).to_json()


@routes.add(
    "POST",
    "/api/register",
    "Register a service (older path)",
    scopes=(WORKER, WRITE),
    body=RegisterRequest,
    answer=RegisteredAnswer,
    errors=(TaskOwnedElsewhere, TargetRefused, PipelineUnsigned),
    example=_EXAMPLE,
)
def register_alias(call: Call, body: RegisterRequest) -> dict[str, Any]:
    """The same as `POST /api/services`, for workers that use this older path."""
    return register(call, body)


@routes.add(
    "DELETE",
    "/api/services/{id}/instances",
    "Take an instance away",
    scopes=(WORKER, WRITE),
    ids=SERVICE,
    query=InstanceQuery,
    answer=RemovedInstance,
    errors=(NotFound,),
)
def remove_instance(call: Call, id: str, query: InstanceQuery) -> dict[str, Any]:
    """Send no more dispatches to an instance of an HTTP service: it stops.

    `baseUrl` is the URL that it registered.
    """
    _check_service(call, id)
    call.change(lambda tx: instances.remove(tx, call.tenant, id, query.base_url))
    return {"serviceId": id, "baseUrl": query.base_url}


@routes.add(
    "PUT",
    "/api/services/{id}/settings",
    "Change the settings of a service",
    scopes=(WRITE,),
    ids=SERVICE,
    body=ServiceSettings,
    answer=ServiceAnswer,
    errors=(NotFound, Conflict, TargetRefused),
    example={"baseUrl": "http://mailer.internal:3001"},
)
def change_settings(call: Call, id: str, body: ServiceSettings) -> dict[str, Any]:
    """Say where dispatches to an HTTP service go, or switch it off.

    Workers with the original Node SDK register `http://localhost:<port>`; from another host, give their URL
    here. It holds for the instances that the service has, and for those that register later.
    """
    if body.base_url not in (None, "peer", "registered"):
        Networks(call.deployment.settings.dispatch_networks).check(str(body.base_url), tenant=call.tenant)
    call.change(
        lambda tx: service_settings.change(
            tx, call.tenant, id, base_url=body.base_url, is_disabled=body.is_disabled
        )
    )
    return get_service(call, id)


def _check_service(call: Call, service_id: str) -> None:
    """Check that the token is not bound to another service.

    Raises:
        Forbidden: it is.
    """
    own = call.access.service_id
    if own not in (None, service_id):
        raise Forbidden(
            f"the token is for the service {own!r}, not for {service_id!r}",
            hint=f"`pipeweave token create NAME --scope worker --service {service_id}` makes one that is",
        )


def _address(call: Call, body: RegisterRequest) -> str | None:
    """Where dispatches to the instance that registers go, checked."""
    if body.base_url is None or body.kind == "python":
        return None
    settings = call.deployment.settings
    tokens.secret_of(settings)
    with call.reading() as tx:
        override = service_settings.base_url_of(tx, call.tenant, body.service_id)
    uses_peer = settings.worker_address == "peer"
    address = address_of(body.base_url, call.peer, override, uses_peer=uses_peer)
    Networks(settings.dispatch_networks).check(address)
    return address


def _task(task: FlatTask | NestedTask, idempotency_ttl: int) -> TaskRegistration:
    options: TaskOptions = task.config if isinstance(task, NestedTask) else task
    fields = {name: getattr(options, name) for name in TaskOptions.model_fields}
    fields["idempotency_ttl"] = fields["idempotency_ttl"] or idempotency_ttl
    task_id = task.task_id if isinstance(task, NestedTask) else task.id
    return TaskRegistration(id=task_id, code_hash=task.code_hash.removeprefix("sha256:"), **fields)
