"""Endpoints of tasks: list, show, pause and resume them; their code history and input schema."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.answers import ValidationAnswer
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import (
    PauseRequest,
    RemoveTaskRequest,
    ResumeRequest,
    TaskLimitsRequest,
    ValidateInputRequest,
)
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.tasks import (
    DeployList,
    HistoryAnswer,
    InputSchemaAnswer,
    PauseState,
    RemovedTaskAnswer,
    TaskAnswer,
    TaskList,
)
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.queueing import pauses, task_limits
from pipeweave.orchestrator.runs import task_removal
from pipeweave.orchestrator.security import ADMIN, READ, WRITE

routes = Routes("tasks")
TASK = {"id": PathId(None, "The task's id.")}


@routes.add("GET", "/api/tasks", "List the tasks", query=PageQuery, answer=TaskList)
def list_tasks(call: Call, query: PageQuery) -> dict[str, Any]:
    """The tasks of all services, in the order of their ids."""
    with call.reading() as tx:
        return query.named("tasks", reading.tasks(tx, call.tenant, query.page()))


@routes.add("GET", "/api/tasks/{id}", "Show a task", ids=TASK, answer=TaskAnswer, errors=(NotFound,))
def get_task(call: Call, id: str) -> dict[str, Any]:
    """One task with all its options."""
    with call.reading() as tx:
        return {"task": reading.task(tx, call.tenant, id)}


@routes.add(
    "POST",
    "/api/tasks/{id}/pause",
    "Pause a task",
    scopes=(WRITE,),
    ids=TASK,
    body=PauseRequest,
    is_body_optional=True,
    answer=PauseState,
    errors=(NotFound,),
    example={"reason": "the printer is out of paper"},
)
def pause(call: Call, id: str, body: PauseRequest) -> dict[str, Any]:
    """Let no task run of the task start, in any run, until it is resumed. Running ones finish; the others
    wait as `ready`. Pausing a paused task changes at most the reason.
    """
    return _paused(call.change(lambda tx: pauses.pause(tx, call.tenant, id, reason=body.reason)))


@routes.add(
    "POST",
    "/api/tasks/{id}/resume",
    "Resume a task",
    scopes=(WRITE,),
    ids=TASK,
    body=ResumeRequest,
    is_body_optional=True,
    answer=PauseState,
    errors=(NotFound, Conflict),
)
def resume(call: Call, id: str, body: ResumeRequest) -> dict[str, Any]:
    """Let the task's waiting task runs start, by priority, then age, as far as limits have room."""
    call.change(lambda tx: pauses.resume(tx, call.tenant, id))
    return {"taskId": id, "pausedAt": None, "reason": None}


@routes.add(
    "PUT",
    "/api/tasks/{id}/limits",
    "Set a task's limits",
    scopes=(ADMIN,),
    ids=TASK,
    body=TaskLimitsRequest,
    answer=TaskAnswer,
    errors=(NotFound,),
    example={"concurrency": 4, "rateLimit": "100/m", "reason": "the printer is slow today"},
)
def put_limits(call: Call, id: str, body: TaskLimitsRequest) -> dict[str, Any]:
    """Let other limits hold than those that the task's code declares. They stay across deployments, until
    they are taken away: `{}` lets what the code declares hold again.

    More room is used at once; a lower limit stops nothing that runs.
    """
    rate = task_limits.NO_RATE if body.rate_limit == "none" else body.rate_limit
    call.change(
        lambda tx: task_limits.set_limits(
            tx,
            call.tenant,
            id,
            concurrency=body.concurrency,
            rate=rate,
            by=call.token_name or None,
            reason=body.reason,
        )
    )
    return get_task(call, id)


@routes.add(
    "POST",
    "/api/tasks/{id}/remove",
    "Remove a task",
    scopes=(WRITE,),
    ids=TASK,
    body=RemoveTaskRequest,
    is_body_optional=True,
    answer=RemovedTaskAnswer,
    errors=(NotFound, Conflict),
    example={"reason": "we print no more"},
)
def remove(call: Call, id: str, body: RemoveTaskRequest) -> dict[str, Any]:
    """Remove a task that no live worker has. Its task runs that have not started are cancelled with
    `TASK_REMOVED`, and their runs follow their failure modes. A worker that loads it later registers it anew.
    """
    removed = call.change(lambda tx: task_removal.remove(tx, call.tenant, id, reason=body.reason))
    return {
        "taskId": removed.task_id,
        "removedAt": iso(removed.removed_at),
        "cancelled": removed.cancelled,
    }


@routes.add("GET", "/api/deploys", "List the deployed code", query=PageQuery, answer=DeployList)
def list_deploys(call: Call, query: PageQuery) -> dict[str, Any]:
    """Which live worker processes have which tasks in which code versions, in the order of the tasks' ids."""
    with call.reading() as tx:
        return query.named("deploys", reading.deploys(tx, call.tenant, query.page()))


@routes.add(
    "GET",
    "/api/tasks/{id}/history",
    "Show a task's code history",
    ids=TASK,
    query=PageQuery,
    answer=HistoryAnswer,
    errors=(NotFound,),
)
def history(call: Call, id: str, query: PageQuery) -> dict[str, Any]:
    """All code versions of the task, newest first."""
    with call.reading() as tx:
        return {"taskId": id} | query.named(
            "history", reading.task_history(tx, call.tenant, id, query.page())
        )


@routes.add(
    "GET",
    "/api/tasks/{id}/input-schema",
    "Show a task's input schema",
    ids=TASK,
    answer=InputSchemaAnswer,
    errors=(NotFound,),
)
def input_schema(call: Call, id: str) -> dict[str, Any]:
    """The input schema of the task, for forms and for checking an input before a trigger. Of a Python task
    that declares none, it comes from the type hints of its parameters.
    """
    with call.reading() as tx:
        return reading.input_schema(tx, call.tenant, id)


@routes.add(
    "POST",
    "/api/tasks/{id}/validate-input",
    "Check an input",
    scopes=(READ,),
    ids=TASK,
    body=ValidateInputRequest,
    answer=ValidationAnswer,
    errors=(NotFound,),
    example={"input": {"to": "someone@example.com"}},
)
def validate_input(call: Call, id: str, body: ValidateInputRequest) -> dict[str, Any]:
    """What the task would refuse in an input: the errors that its input schema finds, and, of a Python task,
    those that the type hints of its parameters tell. What only the task can check is not found here.
    """
    with call.reading() as tx:
        faults = reading.input_errors(tx, call.tenant, id, body.input)
    return {"valid": not faults, "errors": [fault.to_json() for fault in faults]}


def _paused(task_pause: pauses.Pause) -> dict[str, Any]:
    return {"taskId": task_pause.task_id, "pausedAt": iso(task_pause.paused_at), "reason": task_pause.reason}
