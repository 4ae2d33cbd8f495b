"""Run verbs: trigger and cancel. How a run goes on is in advance.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import Conflict, FieldError, InvalidInput, NotFound
from pipeweave.orchestrator import limits, pipelines, registry, run_header, run_moves, task_runs
from pipeweave.orchestrator.advance import Advance
from pipeweave.orchestrator.database import Transaction, to_json
from pipeweave.orchestrator.events import Event, append
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.orchestrator.run_header import RunHeader
from pipeweave.orchestrator.states import TaskStatus
from pipeweave.orchestrator.task_runs import TaskRun
from pipeweave.orchestrator.values import Kept
from pipeweave.rules import FAILURE_MODES
from pipeweave.spec import PipelineSpec

# What PostgreSQL's integer holds; lower runs first.
MIN_PRIORITY, MAX_PRIORITY = -1_000_000, 1_000_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """A wish for a run. None for `failure_mode` and `priority` takes the pipeline's own."""

    pipeline_id: str
    input: Any = None
    failure_mode: str | None = None
    priority: int | None = None
    metadata: Mapping[str, Any] | None = None
    run_token: str | None = None


@dataclass(frozen=True, slots=True)
class CreatedRun:
    """A run that was accepted. `created` is False when its run token had been used for the same input
    before.
    """

    id: UUID
    pipeline_id: str
    version: int
    status: str
    entry_tasks: list[str]
    queued_tasks: list[str]
    input_path: str | None
    created: bool


Check = Callable[[PipelineSpec, Mapping[str, TaskRow]], None]


def trigger(tx: Transaction, tenant: str, wish: Trigger, *, check: Check | None = None) -> CreatedRun:
    """Write a run of the pipeline's latest version with its task runs, and send its entry steps.

    Args:
        check: called with the version's spec and its tasks before anything is written; may raise.

    Raises:
        NotFound: the tenant has no such pipeline.
        InvalidInput: failure mode or priority is none, or the input is not JSON that can be kept.
        Conflict: a task of the pipeline is not registered any more, or no Python worker runs it.
    """
    stored = pipelines.get(tx, tenant, wish.pipeline_id)
    mode = _failure_mode(wish.failure_mode or stored.spec.failure_mode)
    plan = run_header.plan_of(tenant, stored.version, stored.spec)
    tasks = runnable_tasks(tx, tenant, {each.step.task for each in plan.steps})
    if check is not None:
        check(stored.spec, tasks)
    kept = tx.values.keep(stored.spec.input_with_defaults(wish.input))
    run_id = ids.new_id()
    entries = [plan[each].step.task for each in plan.entries]
    if wish.run_token is not None:
        first = _claim_token(tx, tenant, wish, kept, run_id)
        if first != run_id:
            return _known_run(tx, first, wish.pipeline_id, entries)
    priority = checked_priority(wish.priority if wish.priority is not None else stored.spec.priority)
    run = RunHeader(
        run_id,
        tenant,
        wish.pipeline_id,
        stored.version,
        mode,
        priority,
        None if kept.inline is None else orjson.loads(kept.inline),
        kept.path,
        plan,
    )
    written = write(tx, run, kept, tasks, metadata=wish.metadata, run_token=wish.run_token)
    queued = [each.task_id for each in written if each.status is not TaskStatus.PENDING]
    return CreatedRun(
        run_id, wish.pipeline_id, stored.version, "running", entries, queued, kept.path, created=True
    )


def runnable_tasks(tx: Transaction, tenant: str, task_ids: set[str]) -> dict[str, TaskRow]:
    """These tasks, if every one is registered and has workers that can run it.

    Raises:
        Conflict: one is not.
    """
    tasks = registry.tasks(tx, tenant, sorted(task_ids))
    gone = sorted(each for each in task_ids if each not in tasks or tasks[each].orphaned_at is not None)
    if gone:
        raise Conflict(
            f"task {gone[0]!r} is not registered" + (f" (nor are {len(gone) - 1} more)" if gone[1:] else ""),
            errors=[FieldError("task", f"{each!r} is not registered", "unknown_task") for each in gone[:20]],
            hint="start a worker that loads it, or store a version of the pipeline without it",
        )
    remote = sorted(each for each, task in tasks.items() if task.service_kind == "http")
    if remote:
        raise Conflict(
            f"task {remote[0]!r} belongs to an HTTP service, which this version cannot dispatch to",
            hint="register the task from a Python worker",
        )
    return tasks


def _failure_mode(mode: str) -> str:
    if mode not in FAILURE_MODES:
        expected = ", ".join(FAILURE_MODES)
        raise InvalidInput(
            f"failureMode {mode[:80]!r} is unknown",
            errors=[FieldError("failureMode", "is not a failure mode", "invalid_enum_value", expected)],
        )
    return mode


def checked_priority(priority: int | None) -> int | None:
    """The priority, if PostgreSQL and people can make sense of it. Raises InvalidInput."""
    if priority is not None and not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        expected = f"{MIN_PRIORITY} to {MAX_PRIORITY}, lower runs first"
        raise InvalidInput(
            f"priority {priority} is out of range",
            errors=[FieldError("priority", "is out of range", "out_of_range", expected)],
        )
    return priority


# --- writing a run ----------------------------------------------------------------------------------------

_INSERT_RUN = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, priority, input,
    input_path, input_size, inputs_hash, run_token, metadata, task_run_count, created_at, started_at)
VALUES (:id, :tenant, :pipeline_id, :version, 'running', :failure_mode, :priority, CAST(:input AS jsonb),
    :path, :size, :hash, :run_token, CAST(:metadata AS jsonb), :count, :now, :now)
"""

_INSERT_STEPS = """
INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority, queue,
    is_limited, code_version, code_hash, created_at, queued_at)
SELECT :run_id, s.id, :tenant, s.step_id, s.task_id, s.kind, s.status, s.max_attempts, s.priority, s.queue,
    s.is_limited, s.code_version, s.code_hash, :now, CASE WHEN s.status = 'pending' THEN NULL ELSE :now END
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS s(id uuid, step_id text, task_id text, kind text,
    status text, max_attempts integer, priority integer, queue text, is_limited boolean,
    code_version integer, code_hash text)
"""


def write(
    tx: Transaction,
    run: RunHeader,
    kept: Kept,
    tasks: Mapping[str, TaskRow],
    *,
    metadata: Mapping[str, Any] | None = None,
    run_token: str | None = None,
) -> list[TaskRun]:
    """Write a run with a task run for each step, and send its entry steps."""
    entries = frozenset(run.plan.entries)
    rows = [
        _task_run(run, each.ordinal, tasks[each.step.task], each.ordinal in entries)
        for each in run.plan.steps
    ]
    tx.execute(
        _INSERT_RUN,
        {
            "id": run.id,
            "tenant": run.tenant,
            "pipeline_id": run.pipeline_id,
            "version": run.pipeline_version,
            "failure_mode": run.failure_mode,
            "priority": run.priority,
            "input": kept.inline,
            "path": kept.path,
            "size": kept.size,
            "hash": kept.hash,
            "run_token": run_token,
            "metadata": to_json(metadata),
            "count": len(rows),
            "now": tx.now,
        },
    )
    _insert_steps(tx, run, rows, tasks)
    append(tx, _created_events(run, kept, rows))
    advance = Advance(tx, run)
    advance.begin([each for each in rows if each.ordinal in entries])
    advance.limited |= {each.task_id for each in rows if each.status is TaskStatus.READY}
    advance.close()
    return rows


def _task_run(run: RunHeader, ordinal: int, task: TaskRow, is_entry: bool) -> TaskRun:
    step = run.plan[ordinal].step
    is_limited = task.concurrency > 0
    status = TaskStatus.PENDING
    if is_entry and step.map is None:
        status = TaskStatus.READY if is_limited else TaskStatus.QUEUED
    return TaskRun(
        id=ids.task_run_id(run.id, ordinal),
        run_id=run.id,
        step_id=step.id,
        task_id=step.task,
        kind="task" if step.map is None else "map",
        status=status,
        attempt=1,
        map_index=None,
        map_parent=None,
        item=None,
        priority=task.priority if run.priority is None else run.priority,
        queue=task.queue,
        is_limited=is_limited,
        code_version=task.code_version,
        code_hash=task.code_hash,
    )


def _insert_steps(
    tx: Transaction, run: RunHeader, rows: Sequence[TaskRun], tasks: Mapping[str, TaskRow]
) -> None:
    shown = [
        {
            "id": str(each.id),
            "step_id": each.step_id,
            "task_id": each.task_id,
            "kind": each.kind,
            "status": each.status.value,
            "max_attempts": tasks[each.task_id].max_attempts,
            "priority": each.priority,
            "queue": each.queue,
            "is_limited": each.is_limited,
            "code_version": each.code_version,
            "code_hash": each.code_hash,
        }
        for each in rows
    ]
    parameters = {"run_id": run.id, "tenant": run.tenant, "rows": orjson.dumps(shown).decode(), "now": tx.now}
    tx.execute(_INSERT_STEPS, parameters)


def _created_events(run: RunHeader, kept: Kept, rows: Sequence[TaskRun]) -> list[Event]:
    data = {
        "pipelineId": run.pipeline_id,
        "pipelineVersion": run.pipeline_version,
        "failureMode": run.failure_mode,
        "inputsHash": kept.hash,
        "steps": len(rows),
    }
    events = [Event(run.id, "run.created", data=data)]
    for status in (TaskStatus.QUEUED, TaskStatus.READY):
        moved = [each for each in rows if each.status is status]
        events += task_runs.together(f"task_runs.{status.value}", moved)
    return events


# --- idempotent creation ----------------------------------------------------------------------------------

# The claim and the run commit together; a second transaction waits here for the first and then finds its run.
_CLAIM_TOKEN = """
INSERT INTO run_tokens (tenant_id, run_token, pipeline_id, inputs_hash, run_id, created_at)
VALUES (:tenant, :token, :pipeline_id, :hash, :run_id, :now)
ON CONFLICT (tenant_id, run_token, pipeline_id, inputs_hash) DO UPDATE SET run_token = EXCLUDED.run_token
RETURNING run_id
"""


def _claim_token(tx: Transaction, tenant: str, wish: Trigger, kept: Kept, run_id: UUID) -> UUID:
    parameters = {
        "tenant": tenant,
        "token": wish.run_token,
        "pipeline_id": wish.pipeline_id,
        "hash": kept.hash,
        "run_id": run_id,
        "now": tx.now,
    }
    claimed: UUID = tx.execute(_CLAIM_TOKEN, parameters).scalar_one()
    return claimed


def _known_run(tx: Transaction, run_id: UUID, pipeline_id: str, entries: list[str]) -> CreatedRun:
    row = tx.execute(
        "SELECT status, pipeline_version, input_path FROM runs WHERE id = :id", {"id": run_id}
    ).one()
    return CreatedRun(
        run_id, pipeline_id, row.pipeline_version, row.status, entries, [], row.input_path, created=False
    )


# --- cancel -----------------------------------------------------------------------------------------------

_STATUS = "SELECT status FROM runs WHERE id = :id AND tenant_id = :tenant"


def cancel(tx: Transaction, tenant: str, run_id: UUID, *, reason: str | None = None) -> None:
    """End an open run now. Attempts under way are fenced: whatever they return changes nothing any more.

    Raises:
        NotFound: the tenant has no such run.
        Conflict: the run is final already.
    """
    shown = ids.show(ids.RUN, run_id)
    status = tx.execute(_STATUS, {"id": run_id, "tenant": tenant}).scalar_one_or_none()
    if status is None:
        raise NotFound(f"there is no run {shown}")
    reason = reason or "cancelled on request"
    if not run_moves.cancel(tx, run_id, reason):
        raise Conflict(f"run {shown} is {status} already", hint="only an open run can be cancelled")
    cancelled = task_runs.cancel_all(tx, run_id, code="CANCELLED", message=reason)
    limits.fill(tx, tenant, {each.task_id for each in cancelled if each.is_limited and each.kind != "map"})
