"""Single tasks outside any pipeline, and how much is waiting."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.endpoint import Call, Routes
from pipeweave.api.filters import QueueItemsQuery
from pipeweave.api.run_answers import QueueBatchAnswer, Queued, QueueItemList, QueueStatus
from pipeweave.api.schemas import QueueBatchRequest, QueueTaskRequest
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator import queries, queue
from pipeweave.orchestrator.access import WRITE

routes = Routes("queue")


@routes.add(
    "POST",
    "/api/queue/task",
    "Queue one task",
    scopes=(WRITE,),
    body=QueueTaskRequest,
    answer=Queued,
    errors=(NotFound, Conflict),
    links={"runs.get_task_run": "/runId"},
    example={"taskId": "send-mail", "input": {"to": "someone@example.com"}},
)
def queue_task(call: Call, body: QueueTaskRequest) -> dict[str, Any]:
    """`runId` of the answer is the task run: follow it at `/api/task-runs/{id}`."""
    return _enqueued(call, [body])[0]


@routes.add(
    "POST",
    "/api/queue/batch",
    "Queue several tasks",
    scopes=(WRITE,),
    body=QueueBatchRequest,
    answer=QueueBatchAnswer,
    errors=(NotFound, Conflict),
    example={"tasks": [{"taskId": "send-mail", "input": {"to": "someone@example.com"}}]},
)
def queue_batch(call: Call, body: QueueBatchRequest) -> dict[str, Any]:
    """All of them or, when one is wrong, none. Results are in the order of the request."""
    results = _enqueued(call, body.tasks)
    return {"queued": len(results), "results": results}


@routes.add("GET", "/api/queue/status", "How much is waiting", answer=QueueStatus)
def queue_status(call: Call) -> dict[str, Any]:
    """Open task runs by status; what ended well and badly since `since`; open dead letters."""
    with call.reading() as tx:
        return queries.queue_status(tx, call.tenant)


@routes.add("GET", "/api/queue/items", "List what is waiting", query=QueueItemsQuery, answer=QueueItemList)
def queue_items(call: Call, query: QueueItemsQuery) -> dict[str, Any]:
    """Open task runs in the order in which they go: priority, then age."""
    with call.reading() as tx:
        return query.named("items", queries.queue_items(tx, call.tenant, query.page(), **query.filters()))


def _enqueued(call: Call, wishes: list[QueueTaskRequest]) -> list[dict[str, Any]]:
    requests = [queue.QueueRequest(each.task_id, each.input, each.priority, each.metadata) for each in wishes]
    accepted = call.change(lambda tx: queue.enqueue(tx, call.tenant, requests), is_one=False)
    return [
        {
            "runId": ids.show(ids.TASK_RUN, each.task_run_id),
            "status": "queued",
            "taskId": each.task_id,
            "inputPath": each.input_path,
        }
        for each in accepted
    ]
