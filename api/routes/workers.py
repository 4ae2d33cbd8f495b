"""Endpoints of workers: list and show them, drain and resume them."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.workers import DrainRequest, ResumeWorkerRequest, WorkersQuery
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.workers import WorkerAnswer, WorkerList
from pipeweave.orchestrator.registry import drains
from pipeweave.orchestrator.security import ADMIN

routes = Routes("workers")
WORKER = {"id": PathId(None, "The worker's id.")}


@routes.add("GET", "/api/workers", "List the workers", query=WorkersQuery, answer=WorkerList)
def list_workers(call: Call, query: WorkersQuery) -> dict[str, Any]:
    """Celery's worker processes and the instances of HTTP services: those that live, then those that ended in
    the last week.
    """
    with call.reading() as tx:
        page = reading.workers(tx, call.tenant, query.page(), state=query.state, service_id=query.service)
        return query.named("workers", page) | {
            "counts": reading.worker_counts(tx, call.tenant),
            "uptime": reading.service_uptimes(tx, call.tenant),
        }


@routes.add("GET", "/api/workers/{id}", "Show a worker", ids=WORKER, answer=WorkerAnswer, errors=(NotFound,))
def get_worker(call: Call, id: str) -> dict[str, Any]:
    """One worker with the tasks that it has loaded, the task runs that it runs now, and the attempts that
    were lost with it.
    """
    with call.reading() as tx:
        return {"worker": reading.worker(tx, call.tenant, id)}


@routes.add(
    "POST",
    "/api/workers/{id}/drain",
    "Drain a worker",
    scopes=(ADMIN,),
    ids=WORKER,
    body=DrainRequest,
    is_body_optional=True,
    answer=WorkerAnswer,
    errors=(NotFound, Conflict),
    example={"reason": "the host gets a new kernel"},
)
def drain(call: Call, id: str, body: DrainRequest) -> dict[str, Any]:
    """Let a worker take nothing more. What it calls already goes on; what it has claimed and not begun goes
    to other workers.

    A Celery worker hears of it within a second. The drain ends with its process: one that starts anew takes
    work. The drain of an instance of an HTTP service stays until it is resumed, also when it registers anew.
    """
    call.change(lambda tx: drains.drain(tx, call.tenant, id, reason=body.reason))
    return get_worker(call, id)


@routes.add(
    "POST",
    "/api/workers/{id}/resume",
    "Resume a worker",
    scopes=(ADMIN,),
    ids=WORKER,
    body=ResumeWorkerRequest,
    is_body_optional=True,
    answer=WorkerAnswer,
    errors=(NotFound, Conflict),
)
def resume(call: Call, id: str, body: ResumeWorkerRequest) -> dict[str, Any]:
    """Let a worker that drains take work again, within two seconds."""
    call.change(lambda tx: drains.resume(tx, call.tenant, id))
    return get_worker(call, id)
