"""Single tasks outside any pipeline, and how much is waiting."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract.answers import PauseState
from pipeweave.api.contract.query_parameters import QueueItemsQuery
from pipeweave.api.contract.requests import (
    PLACE_CHARS,
    LimitsRequest,
    PauseRequest,
    QueueBatchRequest,
    QueueTaskRequest,
    ResumeRequest,
)
from pipeweave.api.contract.run_answers import (
    QueueBatchAnswer,
    Queued,
    QueueItemList,
    QueueLimits,
    QueueStatus,
)
from pipeweave.api.http import idempotency_header
from pipeweave.api.http.endpoint import Call, Routes
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.runs import admission, standalone_tasks
from pipeweave.orchestrator.security.access_tokens import ADMIN, WRITE
from pipeweave.size_limits import MAX_KEY_CHARS

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
    longest_key=MAX_KEY_CHARS,
    example={"taskId": "send-mail", "input": {"to": "someone@example.com"}},
)
def queue_task(call: Call, body: QueueTaskRequest) -> dict[str, Any]:
    """`runId` of the answer is the task run: follow it at `/api/task-runs/{id}`.

    With an `idempotencyKey` (or the header Idempotency-Key) that another task run of this task has, nothing
    is queued: the answer is that one as it stands, with `created` false, while it is open or its result
    answers for the key. What the input is makes no difference. A task run that failed or was cancelled does
    not keep its key.
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
    errors=(NotFound, Conflict),
    longest_key=MAX_KEY_CHARS - PLACE_CHARS,
    example={"tasks": [{"taskId": "send-mail", "input": {"to": "someone@example.com"}}]},
)
def queue_batch(call: Call, body: QueueBatchRequest) -> dict[str, Any]:
    """All of them or, when one is wrong, none. Results are in the order of the request.

    With the header Idempotency-Key, an entry without an `idempotencyKey` has the header's, with its place
    behind it: `key[0]`, `key[1]` and so on.
    """
    wanted = [
        idempotency_header.of_entry(call.key, each.idempotency_key, place)
        for place, each in enumerate(body.tasks)
    ]
    results = _enqueued(call, body.tasks, wanted)
    return {"queued": sum(each["created"] for each in results), "results": results}


@routes.add("GET", "/api/queue/status", "How much is waiting", answer=QueueStatus)
def queue_status(call: Call) -> dict[str, Any]:
    """Open task runs by status; what ended well and badly since `since`; dead letters; what is paused."""
    with call.reading() as tx:
        return reading.queue_status(tx, call.tenant)


@routes.add("GET", "/api/queue/items", "List what is waiting", query=QueueItemsQuery, answer=QueueItemList)
def queue_items(call: Call, query: QueueItemsQuery) -> dict[str, Any]:
    """Open task runs in the order in which they go: priority, then age."""
    with call.reading() as tx:
        return query.named("items", reading.queue_items(tx, call.tenant, query.page(), **query.filters()))


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
    """No task run of the tenant starts any more; what runs goes on to its end. Runs are accepted as ever."""
    found = call.change(lambda tx: pauses.pause(tx, call.tenant, reason=body.reason))
    return {"taskId": None, "pausedAt": iso(found.paused_at), "reason": found.reason}


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
    """What waited goes, but for tasks that are paused themselves."""
    call.change(lambda tx: pauses.resume(tx, call.tenant))
    return {"taskId": None, "pausedAt": None, "reason": None}


@routes.add("GET", "/api/queue/limits", "Show the limit of active runs", answer=QueueLimits)
def get_limits(call: Call) -> dict[str, Any]:
    """How many runs of the tenant may be active, how many are, and how many wait for their turn."""
    with call.reading() as tx:
        found = admission.standing(tx, call.tenant)
    return {"maxActiveRuns": found.most, "activeRuns": found.active, "pendingRuns": found.waiting}


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
    """A run that is triggered beyond the limit is `pending` until its turn comes, in the order of the ids.
    Runs that are active when the limit is lowered go on. Standalone tasks are not counted.
    """
    call.change(lambda tx: admission.set_limit(tx, call.tenant, body.max_active_runs))
    return get_limits(call)


def _enqueued(call: Call, wishes: list[QueueTaskRequest], wanted: list[str | None]) -> list[dict[str, Any]]:
    requests = [
        standalone_tasks.QueueRequest(each.task_id, each.input, each.priority, each.metadata, key)
        for each, key in zip(wishes, wanted, strict=True)
    ]
    accepted = call.change(lambda tx: standalone_tasks.enqueue(tx, call.tenant, requests), is_one=False)
    return [
        {
            "runId": ids.show(ids.TASK_RUN, each.task_run_id),
            "status": each.status,
            "taskId": each.task_id,
            "inputPath": each.input_path,
            "created": each.created,
        }
        for each in accepted
    ]
