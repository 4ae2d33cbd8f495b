"""Endpoints of standalone tasks and of the tenant's queue: its status, pause and limit of active runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeweave import ids
from pipeweave.api.contract.query_parameters import PageQuery, QueueItemsQuery
from pipeweave.api.contract.requests import (
    PLACE_CHARS,
    LimitsRequest,
    PauseRequest,
    QueueBatchRequest,
    QueueTaskRequest,
    ResumeRequest,
)
from pipeweave.api.contract.run_answers import QueueBatchAnswer, Queued
from pipeweave.api.http import Call, PathId, Routes, idempotency_header
from pipeweave.errors import Conflict, NotFound, UploadNotUsable
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.diagnosis import why_line
from pipeweave.orchestrator.documents.queues import (
    QueueDetail,
    QueueItemList,
    QueueLimits,
    QueueList,
    QueueStatus,
)
from pipeweave.orchestrator.documents.tasks import PauseState
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.queueing import pauses, run_slots
from pipeweave.orchestrator.runs import admission, standalone_tasks
from pipeweave.orchestrator.security import ADMIN, WRITE
from pipeweave.size_limits import MAX_KEY_CHARS
from pipeweave.storage import plain_path

routes = Routes("queue")
QUEUE = {"queue": PathId(None, "The full name of the queue; it may have slashes.", is_path=True)}
# Of so many task runs on a page a reason is looked for.
MOST_EXPLAINED = 200


@routes.add(
    "POST",
    "/api/queue/task",
    "Queue one task",
    scopes=(WRITE,),
    body=QueueTaskRequest,
    answer=Queued,
    errors=(NotFound, Conflict, UploadNotUsable),
    links={"runs.get_task_run": "/runId"},
    longest_key=MAX_KEY_CHARS,
    example={"taskId": "send-mail", "input": {"to": "someone@example.com"}},
)
def queue_task(call: Call, body: QueueTaskRequest) -> dict[str, Any]:
    """Queue a task outside any pipeline. `runId` in the answer is the task run: follow it at
    `/api/task-runs/{id}`.

    If another task run of this task has the same `idempotencyKey` (or header Idempotency-Key) and is open, or
    has a result that has not expired, nothing is queued: the answer shows that task run in its present state,
    with `created` false, whatever the input. A task run that failed or was cancelled gives up its key.
    """
    return _enqueued(
        call, [body], [idempotency_header.of_body(call.key, body.idempotency_key, "idempotencyKey")]
    )[0]


@routes.add(
    "POST",
    "/api/queue/batch",
    "Queue several tasks",
    scopes=(WRITE,),
    body=QueueBatchRequest,
    answer=QueueBatchAnswer,
    errors=(NotFound, Conflict, UploadNotUsable),
    longest_key=MAX_KEY_CHARS - PLACE_CHARS,
    example={"tasks": [{"taskId": "send-mail", "input": {"to": "someone@example.com"}}]},
)
def queue_batch(call: Call, body: QueueBatchRequest) -> dict[str, Any]:
    """Queue several tasks: all of them, or none if one is invalid. Results are in the order of the request.

    With the header Idempotency-Key, an entry without an `idempotencyKey` gets the header's key and its own
    index: `key[0]`, `key[1]` and so on.
    """
    keys = [
        idempotency_header.of_entry(call.key, task.idempotency_key, index)
        for index, task in enumerate(body.tasks)
    ]
    results = _enqueued(call, body.tasks, keys)
    return {"queued": sum(result["created"] for result in results), "results": results}


@routes.add("GET", "/api/queue/status", "Show the queue's status", answer=QueueStatus)
def queue_status(call: Call) -> dict[str, Any]:
    """Counts of open, completed and failed task runs and of open dead letters, and the pauses."""
    with call.reading() as tx:
        return reading.queue_status(tx, call.tenant)


@routes.add("GET", "/api/queue/items", "List the open task runs", query=QueueItemsQuery, answer=QueueItemList)
def queue_items(call: Call, query: QueueItemsQuery) -> dict[str, Any]:
    """Open task runs in the order in which they start: priority, then age. With `reasons=true`, each says
    what it waits for first; `/api/task-runs/{id}/why` has all its reasons.
    """
    page, filters = query.page(), query.filters()
    with call.reading() as tx:
        if not query.reasons:
            return query.named("items", reading.queue_items(tx, call.tenant, page, **filters))
        page = replace(page, limit=min(page.limit, MOST_EXPLAINED))
        is_serverless = call.deployment.settings.mode == "serverless"
        oldest = call.deployment.publisher.oldest
        explained_page = why_line.items_with_reasons(
            tx, call.tenant, page, oldest, is_serverless=is_serverless, **filters
        )
        return query.named("items", explained_page)


@routes.add(
    "POST",
    "/api/queue/pause",
    "Pause the tenant",
    scopes=(WRITE,),
    body=PauseRequest,
    is_body_optional=True,
    answer=PauseState,
    example={"reason": "the printer is out of paper"},
)
def pause(call: Call, body: PauseRequest) -> dict[str, Any]:
    """Let no task run of the tenant start until it is resumed. Running ones finish; runs are accepted."""
    tenant_pause = call.change(lambda tx: pauses.pause(tx, call.tenant, reason=body.reason))
    return {"taskId": None, "pausedAt": iso(tenant_pause.paused_at), "reason": tenant_pause.reason}


@routes.add(
    "POST",
    "/api/queue/resume",
    "Resume the tenant",
    scopes=(WRITE,),
    body=ResumeRequest,
    is_body_optional=True,
    answer=PauseState,
    errors=(Conflict,),
)
def resume(call: Call, body: ResumeRequest) -> dict[str, Any]:
    """Let the tenant's task runs start again, except those of paused tasks."""
    call.change(lambda tx: pauses.resume(tx, call.tenant))
    return {"taskId": None, "pausedAt": None, "reason": None}


@routes.add("GET", "/api/queues", "List the queues", query=PageQuery, answer=QueueList)
def list_queues(call: Call, query: PageQuery) -> dict[str, Any]:
    """The queues of the tenant, the longest first: how much waits in each of them and since when, who serves
    it, and how fast it empties.
    """
    with call.reading() as tx:
        return query.named("queues", reading.queues(tx, call.tenant, query.page()))


@routes.add("GET", "/api/queues/{queue}", "Show a queue", ids=QUEUE, answer=QueueDetail, errors=(NotFound,))
def get_queue(call: Call, queue: str) -> dict[str, Any]:
    """One queue: beside its row of the list, what waits in it by task and by priority, and who serves it."""
    with call.reading() as tx:
        return reading.queue_detail(tx, call.tenant, queue)


@routes.add("GET", "/api/queue/limits", "Show the limits", answer=QueueLimits)
def get_limits(call: Call) -> dict[str, Any]:
    """The limit of active runs of the tenant with the numbers of active and of waiting runs, and the limits
    of its tasks with the runs that hold their slots.
    """
    with call.reading() as tx:
        slots = run_slots.slots_of(tx, call.tenant)
        tasks = reading.task_limits(tx, call.tenant)
    return {
        "maxActiveRuns": slots.most,
        "activeRuns": slots.active,
        "pendingRuns": slots.waiting,
        "tasks": tasks,
    }


@routes.add(
    "PUT",
    "/api/queue/limits",
    "Limit the active runs",
    scopes=(ADMIN,),
    body=LimitsRequest,
    answer=QueueLimits,
    example={"maxActiveRuns": 10},
)
def put_limits(call: Call, body: LimitsRequest) -> dict[str, Any]:
    """Set the limit. A run triggered beyond it is `pending` until a run slot is free; runs get slots in the
    order of their ids. A lower limit does not stop active runs. Standalone tasks are not counted.
    """
    call.change(lambda tx: admission.set_limit(tx, call.tenant, body.max_active_runs))
    return get_limits(call)


def _enqueued(call: Call, tasks: list[QueueTaskRequest], keys: list[str | None]) -> list[dict[str, Any]]:
    requests = [
        standalone_tasks.QueueRequest(task.task_id, task.input, task.priority, task.metadata, key, call.cause)
        for task, key in zip(tasks, keys, strict=True)
    ]
    values = call.deployment.values
    accepted = call.change(
        lambda tx: standalone_tasks.enqueue(tx, values, call.tenant, requests), is_one=False
    )
    return [
        {
            "runId": ids.show(ids.TASK_RUN, queued.task_run_id),
            "status": queued.status,
            "taskId": queued.task_id,
            "inputPath": queued.input_path and plain_path(queued.input_path),
            "created": queued.created,
        }
        for queued in accepted
    ]
