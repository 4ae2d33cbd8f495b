"""Enqueues standalone tasks: each is a run with one step and no pipeline; the API shows only its task run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.authoring import KEY_EXPECTED, is_key
from pipeweave.errors import FieldError, InvalidInput, LimitExceeded, NotFound
from pipeweave.orchestrator.domain.plan import standalone_plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.triggered_by import BY_REQUEST, TriggeredBy
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.registry import task_rows, unknown_names
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.runs import creation, triggering
from pipeweave.orchestrator.runs.new_run import NewRun
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.size_limits import MAX_BATCH
from pipeweave.spec import FAIL_FAST


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """A request to execute a task once.

    Args:
        priority: None takes the task's own priority.
        idempotency_key: if a task run of the task has this key already, nothing is executed, whatever the
            input.
    """

    task_id: str
    input: Any = None
    priority: int | None = None
    metadata: Mapping[str, Any] | None = None
    idempotency_key: str | None = None
    triggered_by: TriggeredBy = BY_REQUEST


@dataclass(frozen=True, slots=True)
class Queued:
    """An accepted task run. `created` is False for an earlier task run with the same idempotency key."""

    task_run_id: UUID
    task_id: str
    input_path: str | None
    status: str = "queued"
    created: bool = True


def enqueue(tx: Transaction, values: Values, tenant: str, requests: Sequence[QueueRequest]) -> list[Queued]:
    """Accept standalone task runs: all of them or, when one request is wrong, none.

    If another task run of the task holds a request's idempotency key, because it is open or its result is
    still valid for the key, that task run is returned and no new one is made.

    Raises:
        NotFound: the tenant has no such task; `errors` names the entry.
        InvalidInput: an idempotency key is not valid.
        LimitExceeded: more than MAX_BATCH requests at once.
        Conflict: a task cannot be run now (see `triggering.runnable`).
        Unavailable: storage cannot be reached, or maintenance is on.
    """
    if len(requests) > MAX_BATCH:
        raise LimitExceeded(
            f"{len(requests):,} tasks at once; at most {MAX_BATCH:,} are accepted",
            errors=[FieldError("tasks", "has too many entries", "too_big", f"at most {MAX_BATCH}")],
        )
    backend = values.backends.choose(tenant, None)
    return enqueue_kept(tx, tenant, requests, [values.keep(each.input, backend) for each in requests])


def enqueue_kept(
    tx: Transaction, tenant: str, requests: Sequence[QueueRequest], inputs: Sequence[KeptValue]
) -> list[Queued]:
    """As `enqueue`, with inputs that were kept before: storage is not used."""
    known = task_rows.tasks(tx, tenant, sorted({each.task_id for each in requests}))
    unknown = [number for number, each in enumerate(requests) if each.task_id not in known]
    if unknown:
        name = requests[unknown[0]].task_id
        raise NotFound(
            f"task {name[:200]!r} not found",
            errors=[
                FieldError(f"tasks[{number}].taskId", "is not registered", "unknown_task")
                for number in unknown
            ],
            hint=unknown_names.hint("task", name, unknown_names.names(tx, tenant, "task")),
        )
    tasks = triggering.runnable(known, known)
    new_runs = [_new_run(tx, tenant, *each, tasks) for each in zip(requests, inputs, strict=True)]
    answers = [_accepted(each) for each in new_runs]
    holders = _holders_of_keys(tx, tenant, new_runs)
    if fresh := [each for each in new_runs if each.header.id not in holders]:
        creation.write(tx, fresh)
    return [holders.get(new.header.id, answer) for new, answer in zip(new_runs, answers, strict=True)]


def _new_run(
    tx: Transaction, tenant: str, request: QueueRequest, kept: KeptValue, tasks: Mapping[str, TaskRow]
) -> NewRun:
    inline = request.input if kept.path is None else None
    priority = triggering.checked_priority(request.priority)
    plan = standalone_plan(request.task_id)
    header = RunHeader(
        tx.new_id(),
        tenant,
        None,
        None,
        FAIL_FAST,
        priority,
        inline,
        kept.path,
        plan,
        request.triggered_by,
    )
    key = _checked_key(request.idempotency_key)
    return NewRun(header, kept, tasks, request.metadata, idempotency_key=key)


def _checked_key(key: str | None) -> str | None:
    if key is not None and not is_key(key):
        raise InvalidInput(
            f"the idempotency key {key[:80]!r} is not valid",
            errors=[FieldError("idempotencyKey", f"must be {KEY_EXPECTED}", "invalid", KEY_EXPECTED)],
        )
    return key


def _accepted(new: NewRun) -> Queued:
    return Queued(ids.task_run_id(new.header.id, 1), _task(new), new.input.path)


def _task(new: NewRun) -> str:
    return new.header.plan[1].step.task


# --- idempotency keys that are held -----------------------------------------------------------------------


def _holders_of_keys(tx: Transaction, tenant: str, new_runs: Sequence[NewRun]) -> dict[UUID, Queued]:
    """For new runs that are not to be written: run id -> the task run that holds its idempotency key."""
    keyed = [
        (_task(each), each.idempotency_key, each) for each in new_runs if each.idempotency_key is not None
    ]
    if not keyed:
        return {}
    tx.hold()
    holders: dict[UUID, Queued] = {}
    first: dict[tuple[str, str], Queued] = {}
    # Reserved in sorted order, so that two batches cannot deadlock.
    for task, key, new in sorted(keyed, key=lambda each: each[:2]):
        if (task, key) not in first:
            answer = _accepted(new)
            row = idempotency.reserve(tx, tenant, task, key, answer.task_run_id)
            if row is not None:
                answer = holders[new.header.id] = _holder(tx, task, row)
            first[task, key] = replace(answer, created=False)
        else:
            holders[new.header.id] = first[task, key]
    return holders


_INPUT_PATH = "SELECT r.input_path FROM runs AS r WHERE r.id = :id"


def _holder(tx: Transaction, task_id: str, row: Any) -> Queued:
    path = tx.execute(_INPUT_PATH, {"id": ids.run_id_of(row.holder)}).scalar_one_or_none()
    return Queued(row.holder, task_id, path, row.status, created=False)
