"""Stores registered tasks; a changed code hash makes a new code version with a row of history.

The version also grows when the code changes back to an old hash: so a higher version is always later code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pipeweave.authoring import PAUSE
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.rates import Rate, parse_rate

# A statement that read a task before it changed may commit later, but no statement takes as long as this.
SETTLED_AFTER = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A task whose code differs from what was registered before."""

    task_id: str
    old_hash: str
    new_hash: str
    old_version: int
    new_version: int

    def to_json(self) -> dict[str, Any]:
        return {
            "taskId": self.task_id,
            "oldHash": self.old_hash,
            "newHash": self.new_hash,
            "oldVersion": self.old_version,
            "newVersion": self.new_version,
        }


_COLUMNS = (
    "service_id",
    "queue",
    "code_hash",
    "code_version",
    "allowed_next",
    "timeout_seconds",
    "max_attempts",
    "retry_backoff",
    "retry_delay_ms",
    "max_retry_delay_ms",
    "retry_multiplier",
    "retry_jitter",
    "retry_on",
    "heartbeat_interval_ms",
    "concurrency",
    "rate_limit",
    "rate_seconds",
    "declared_concurrency",
    "declared_rate",
    "priority",
    "idempotency_ttl_seconds",
    "description",
    "input_schema",
    "parameters",
    "orphaned_at",
    "on_exhausted",
    "requires",
)

# True when the task moves to another service or queue, requires other labels, or gets its first limit:
# task_moves.py then updates its open task runs.
_MOVES_ON = """(tasks.service_id <> excluded.service_id OR tasks.queue IS DISTINCT FROM excluded.queue
    OR tasks.requires IS DISTINCT FROM excluded.requires
    OR (tasks.concurrency = 0 AND tasks.rate_limit IS NULL
        AND (excluded.concurrency > 0 OR excluded.rate_limit IS NOT NULL)))"""

# A changed rate limit clears rate_at: starts that the old rate had used up must not delay those of the new
# rate.
_STORE_TASKS = f"""
INSERT INTO tasks (tenant_id, id, {", ".join(_COLUMNS)}, registered_at, updated_at)
SELECT :tenant, r.id, {", ".join(f"r.{name}" for name in _COLUMNS)}, :now, :now
FROM jsonb_populate_recordset(CAST(NULL AS tasks), CAST(:rows AS jsonb)) AS r ORDER BY r.id
ON CONFLICT (tenant_id, id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)},
    rate_at = CASE WHEN (tasks.rate_limit, tasks.rate_seconds)
        IS NOT DISTINCT FROM (excluded.rate_limit, excluded.rate_seconds) THEN tasks.rate_at END,
    follow_at = CASE WHEN {_MOVES_ON} THEN now() ELSE tasks.follow_at END,
    follow_until = CASE WHEN {_MOVES_ON} THEN now() + CAST(:settled AS interval) ELSE tasks.follow_until END,
    updated_at = excluded.updated_at
"""

_STORE_HISTORY = """
INSERT INTO task_code_history (tenant_id, task_id, code_version, code_hash, service_version, recorded_at)
SELECT :tenant, r.id, r.code_version, r.code_hash, :version, :now
FROM jsonb_populate_recordset(CAST(NULL AS tasks), CAST(:rows AS jsonb)) AS r
"""


def store_tasks(
    tx: Transaction, tenant: str, registration: Registration, stored: Mapping[str, Any]
) -> list[CodeChange]:
    """Write the tasks that are new or changed, and a row of history for each new code version.

    Args:
        stored: the rows of these tasks as they are now, by id, read under the registration lock.
    """
    changed, recorded, changes = [], [], []
    for task in registration.tasks:
        row = stored.get(task.id)
        version = 1 if row is None else row.code_version + (row.code_hash != task.code_hash)
        wanted = _row(task, registration.service_id, version, row)
        if row is None or any(getattr(row, name) != wanted[name] for name in _COLUMNS):
            changed.append(wanted)
        if row is None or version != row.code_version:
            recorded.append(wanted)
        if row is not None and version != row.code_version:
            changes.append(CodeChange(task.id, row.code_hash, task.code_hash, row.code_version, version))
    parameters = {"tenant": tenant, "version": registration.version, "now": tx.now, "settled": SETTLED_AFTER}
    for statement, rows in ((_STORE_TASKS, changed), (_STORE_HISTORY, recorded)):
        if rows:
            tx.execute(statement, {**parameters, "rows": to_json(rows)})
    return changes


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a task, declared or in force.

    Args:
        concurrency: task runs at once; 0 for no limit.
        rate: starts in a time, as `100/m`; empty for no limit.
    """

    concurrency: int
    rate: str


def declared_of(row: Any) -> Limits:
    """What the code of a stored task declares. Before it was kept by itself, it was what held."""
    rate = "" if row.rate_limit is None else str(Rate(row.rate_limit, row.rate_seconds))
    return Limits(
        row.concurrency if row.declared_concurrency is None else row.declared_concurrency,
        rate if row.declared_rate is None else row.declared_rate,
    )


def held(declared: Limits, concurrency: int | None, rate: str | None) -> Limits:
    """The limits that hold: an operator's where one is given, else the declared ones."""
    return Limits(
        declared.concurrency if concurrency is None else concurrency,
        declared.rate if rate is None else rate,
    )


def _row(task: TaskRegistration, service_id: str, code_version: int, stored: Any) -> dict[str, Any]:
    schema = task.input_schema
    declared = Limits(int(task.concurrency), task.rate_limit or "")
    # What an operator has set stays, whatever is deployed.
    override = (None, None) if stored is None else (stored.concurrency_override, stored.rate_override)
    in_force = held(declared, *override)
    rate = parse_rate(in_force.rate) if in_force.rate else None
    values: Sequence[Any] = (
        service_id,
        None if task.queue in (None, queue_names.DEFAULT) else task.queue,
        task.code_hash,
        code_version,
        list(task.allowed_next),
        float(task.timeout),
        int(task.retries) + 1,
        task.retry_backoff,
        int(task.retry_delay_ms),
        int(task.max_retry_delay_ms),
        float(task.retry_multiplier),
        float(task.retry_jitter),
        # Sorted, so that another order of the same codes is no change.
        None if task.retry_on is None else sorted(set(task.retry_on)),
        int(task.heartbeat_interval_ms),
        in_force.concurrency,
        None if rate is None else rate.limit,
        None if rate is None else rate.seconds,
        declared.concurrency,
        declared.rate,
        int(task.priority),
        int(task.idempotency_ttl),
        task.description,
        None if schema is None else dict(schema),
        None if task.parameters is None else dict(task.parameters),
        None,
        task.on_exhausted if task.on_exhausted == PAUSE else None,
        None if task.requires is None else dict(task.requires),
    )
    return {"id": task.id, **dict(zip(_COLUMNS, values, strict=True))}
