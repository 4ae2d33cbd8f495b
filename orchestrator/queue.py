"""Standalone tasks: each is a run of one step without a pipeline, shown as its task run alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, LimitExceeded, NotFound
from pipeweave.limits import MAX_BATCH
from pipeweave.orchestrator import registry, run_header, run_rows, runs
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.orchestrator.run_header import RunHeader
from pipeweave.orchestrator.run_rows import NewRun
from pipeweave.rules import FAIL_FAST


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """A wish for one execution of a task. `priority` None takes the task's own."""

    task_id: str
    input: Any = None
    priority: int | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """A task run that was accepted."""

    task_run_id: UUID
    task_id: str
    input_path: str | None


def enqueue(tx: Transaction, tenant: str, requests: Sequence[QueueRequest]) -> list[Queued]:
    """Accept standalone task runs: all of them or, when one is wrong, none.

    Raises:
        NotFound: a task is not known to the tenant; `errors` names the entry.
        LimitExceeded: more than MAX_BATCH requests at once.
        Conflict: a task cannot be run now (see `runs.runnable`).
    """
    if len(requests) > MAX_BATCH:
        raise LimitExceeded(
            f"{len(requests):,} tasks at once, at most {MAX_BATCH:,} are taken",
            errors=[FieldError("tasks", "has too many entries", "too_big", f"at most {MAX_BATCH}")],
        )
    known = registry.tasks(tx, tenant, sorted({each.task_id for each in requests}))
    unknown = [number for number, each in enumerate(requests) if each.task_id not in known]
    if unknown:
        name = requests[unknown[0]].task_id
        raise NotFound(
            f"there is no task {name[:200]!r}",
            errors=[
                FieldError(f"tasks[{number}].taskId", "is not registered", "unknown_task")
                for number in unknown
            ],
            hint="`pipeweave tasks` lists the registered ones",
        )
    tasks = runs.runnable(known, known)
    new_runs = [_new_run(tx, tenant, each, tasks) for each in requests]
    written = run_rows.write(tx, new_runs) if new_runs else []
    return [
        Queued(run.task_runs[0].id, new.header.plan[1].step.task, new.input.path)
        for new, run in zip(new_runs, written, strict=True)
    ]


def _new_run(tx: Transaction, tenant: str, wish: QueueRequest, tasks: Mapping[str, TaskRow]) -> NewRun:
    kept = tx.values.keep(wish.input)
    inline = wish.input if kept.path is None else None
    priority = runs.checked_priority(wish.priority)
    plan = run_header.single(wish.task_id)
    header = RunHeader(ids.new_id(), tenant, None, None, FAIL_FAST, priority, inline, kept.path, plan)
    return NewRun(header, kept, tasks, wish.metadata)
