"""Services and their tasks: registration, code versions, orphans.

Registrations of one tenant go one after the other (an advisory lock, held to the end of the transaction), so
that eight worker processes that start at once agree on owners and code versions. Rows that did not change are
not written: seven of the eight write a heartbeat and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pipeweave import ids
from pipeweave.authoring.retry import RetryPolicy
from pipeweave.errors import FieldError, TaskOwnedElsewhere
from pipeweave.orchestrator.registry.code_versions import CodeChange as CodeChange
from pipeweave.orchestrator.registry.code_versions import store_tasks
from pipeweave.orchestrator.registry.registration import Registration, check
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

_LOCK_CLASS = 0x72656769


@dataclass(frozen=True, slots=True)
class Registered:
    """What a registration changed."""

    code_changes: list[CodeChange]
    orphaned_tasks: list[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "success": True,
            "codeChanges": [change.to_json() for change in self.code_changes],
            "orphanedTasks": self.orphaned_tasks,
        }


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A registered task with its service: what creating and dispatching its task runs needs."""

    id: str
    service_id: str
    service_kind: str
    base_url: str | None
    queue: str
    code_hash: str
    code_version: int
    allowed_next: list[str]
    timeout_seconds: float
    max_attempts: int
    retry_backoff: str
    retry_delay_ms: int
    max_retry_delay_ms: int
    retry_multiplier: float
    retry_jitter: float
    retry_on: list[str] | None
    heartbeat_interval_ms: int
    concurrency: int
    rate_limit: int | None
    rate_seconds: float | None
    priority: int
    idempotency_ttl_seconds: int
    description: str | None
    input_schema: dict[str, Any] | None
    orphaned_at: datetime | None


class RetryColumns(Protocol):
    """The columns of a task that say how its attempts follow each other: of a TaskRow, or of any row."""

    @property
    def retry_backoff(self) -> Any: ...
    @property
    def retry_delay_ms(self) -> int: ...
    @property
    def max_retry_delay_ms(self) -> int: ...
    @property
    def retry_multiplier(self) -> float: ...
    @property
    def retry_jitter(self) -> float: ...
    @property
    def retry_on(self) -> list[str] | None: ...


def policy_of(row: RetryColumns, cap_ms: int | None = None) -> RetryPolicy:
    """How the attempts of a task follow each other; no delay is longer than `cap_ms` (MAX_RETRY_DELAY_MS)."""
    return RetryPolicy(
        row.retry_backoff,
        row.retry_delay_ms,
        row.max_retry_delay_ms,
        row.retry_multiplier,
        row.retry_jitter,
        None if row.retry_on is None else frozenset(row.retry_on),
        cap_ms,
    )


def queue_name(tenant: str, service_id: str) -> str:
    """The Celery queue of a service's tasks."""
    # `a` with `b.c` and `a.b` with `c` must not share a queue: a slash can be in neither name.
    return f"pipeweave.{tenant.replace('.', '/')}.{service_id}"


# The columns of a TaskRow, in its order.
TASK_COLUMNS = """t.id, t.service_id, s.kind AS service_kind, s.base_url, s.queue, t.code_hash,
    t.code_version, t.allowed_next, t.timeout_seconds, t.max_attempts, t.retry_backoff, t.retry_delay_ms,
    t.max_retry_delay_ms, t.retry_multiplier, t.retry_jitter, t.retry_on, t.heartbeat_interval_ms,
    t.concurrency, t.rate_limit, t.rate_seconds, t.priority, t.idempotency_ttl_seconds, t.description,
    t.input_schema, t.orphaned_at"""

_TASKS = f"""
SELECT {TASK_COLUMNS}
FROM tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id
WHERE t.tenant_id = :tenant AND t.id = ANY(CAST(:ids AS text[]))
"""


def tasks(tx: Transaction, tenant: str, task_ids: Iterable[str]) -> dict[str, TaskRow]:
    """The registered ones of these tasks by id, orphaned ones included."""
    wanted = sorted(set(task_ids))
    if not wanted:
        return {}
    rows = tx.execute(_TASKS, {"tenant": tenant, "ids": wanted})
    return {row.id: task_row(row) for row in rows}


def task_row(row: Iterable[Any]) -> TaskRow:
    """The TaskRow of a row of TASK_COLUMNS."""
    return TaskRow(*row)


def ensure_tenant(tx: Transaction, tenant: str) -> None:
    """Make the tenant, if it is not there yet.

    Raises:
        InvalidId: it cannot be a tenant's id.
    """
    ids.check_name(tenant, "tenant")
    parameters = {"id": tenant, "now": tx.now}
    # Looked up first: most tenants exist, and a refused INSERT still costs a write.
    if tx.execute("SELECT 1 FROM tenants WHERE id = :id", parameters).first() is None:
        tx.execute(
            "INSERT INTO tenants (id, created_at) VALUES (:id, :now) ON CONFLICT DO NOTHING", parameters
        )


def register(tx: Transaction, tenant: str, registration: Registration) -> Registered:
    """Store a service and its tasks as they are now.

    A changed code hash raises the task's code version by one, going back to an old hash too. When the
    service's version changed, its tasks that are not named any more are orphaned, and what has not started of
    them is cancelled.

    Raises:
        InvalidTask: a field is wrong; nothing is stored.
        TaskOwnedElsewhere: a task belongs to another active service, or the id to one of another kind.
    """
    check(registration)
    ensure_tenant(tx, tenant)
    tx.execute(
        "SELECT pg_advisory_xact_lock(:class, hashtext(:tenant))", {"class": _LOCK_CLASS, "tenant": tenant}
    )
    previous_version = _store_service(tx, tenant, registration)
    stored = _stored(tx, tenant, registration)
    _check_owners(registration, stored)
    orphaned: list[str] = []
    if previous_version not in (None, registration.version):
        orphaned = _orphan(tx, tenant, registration)
    changes = store_tasks(tx, tenant, registration, stored)
    for change in changes:
        log.warning(
            "task.code_changed",
            extra={"tenant": tenant, "service_id": registration.service_id, **_logged(change)},
        )
    return Registered(changes, orphaned)


def _logged(change: CodeChange) -> dict[str, Any]:
    return {
        "task_id": change.task_id,
        "old_hash": change.old_hash,
        "new_hash": change.new_hash,
        "old_version": change.old_version,
        "new_version": change.new_version,
    }


# --- the service ------------------------------------------------------------------------------------------

_PREVIOUS = (
    "SELECT version, kind, status FROM services WHERE tenant_id = :tenant AND id = :id FOR NO KEY UPDATE"
)

_STORE_SERVICE = """
INSERT INTO services (tenant_id, id, kind, version, base_url, queue, status, registered_at, last_heartbeat)
VALUES (:tenant, :id, :kind, :version, :base_url, :queue, 'active', :now, :now)
ON CONFLICT (tenant_id, id) DO UPDATE SET kind = excluded.kind, version = excluded.version,
    base_url = excluded.base_url, queue = excluded.queue, status = 'active',
    last_heartbeat = excluded.last_heartbeat,
    registered_at = CASE WHEN services.version = excluded.version THEN services.registered_at
                         ELSE excluded.registered_at END
"""


def _store_service(tx: Transaction, tenant: str, registration: Registration) -> str | None:
    """Write the service; returns the version it had, None when it is new.

    Were a service with live Celery workers made an HTTP one, its tasks would be orphaned under them.
    """
    parameters = {
        "tenant": tenant,
        "id": registration.service_id,
        "kind": registration.kind,
        "version": registration.version,
        "base_url": registration.base_url,
        "queue": queue_name(tenant, registration.service_id),
        "now": tx.now,
    }
    previous = tx.execute(_PREVIOUS, parameters).one_or_none()
    if previous is not None and (previous.kind, previous.status) == ("python", "active"):
        _check_kind(registration)
    tx.execute(_STORE_SERVICE, parameters)
    return None if previous is None else str(previous.version)


def _check_kind(registration: Registration) -> None:
    if registration.kind == "python":
        return
    fault = FieldError(
        "serviceId", f"{registration.service_id!r} has Celery workers that run its tasks", "owned"
    )
    raise TaskOwnedElsewhere(
        f"service {fault.message}", errors=[fault], hint="give the service another id, or stop the workers"
    )


# --- owners -----------------------------------------------------------------------------------------------

_STORED = """
SELECT t.*, s.status AS owner_status
FROM tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id
WHERE t.tenant_id = :tenant AND t.id = ANY(CAST(:ids AS text[]))
"""


def _stored(tx: Transaction, tenant: str, registration: Registration) -> dict[str, Any]:
    rows = tx.execute(_STORED, {"tenant": tenant, "ids": [task.id for task in registration.tasks]})
    return {row.id: row for row in rows}


def _check_owners(registration: Registration, stored: Mapping[str, Any]) -> None:
    """A task may move to this service only from one that is gone, or that dropped it."""
    faults = []
    for at, task in enumerate(registration.tasks):
        row = stored.get(task.id)
        if row is None or row.service_id == registration.service_id:
            continue
        if row.owner_status == "active" and row.orphaned_at is None:
            faults.append(
                FieldError(f"tasks[{at}].id", f"{task.id!r} belongs to service {row.service_id!r}", "owned")
            )
        else:
            log.warning(
                "task.taken_over",
                extra={
                    "task_id": task.id,
                    "old_service": row.service_id,
                    "service_id": registration.service_id,
                },
            )
    if faults:
        raise TaskOwnedElsewhere(
            f"{faults[0].message}, not to {registration.service_id!r}",
            errors=faults,
            hint="give the task another id, or stop the other service and let it go",
        )


# --- orphans ----------------------------------------------------------------------------------------------

_ORPHANED = """
SELECT id FROM tasks WHERE tenant_id = :tenant AND service_id = :service AND orphaned_at IS NULL
    AND NOT id = ANY(CAST(:kept AS text[]))
ORDER BY id
"""

_MARK_ORPHANED = """
UPDATE tasks SET orphaned_at = :now, updated_at = :now
WHERE tenant_id = :tenant AND id = ANY(CAST(:ids AS text[]))
"""


def _orphan(tx: Transaction, tenant: str, registration: Registration) -> list[str]:
    """Drop the service's tasks that the new version does not have. Returns their ids."""
    parameters = {
        "tenant": tenant,
        "service": registration.service_id,
        "kept": [task.id for task in registration.tasks],
    }
    orphaned = list(tx.execute(_ORPHANED, parameters).scalars())
    if orphaned:
        # Task runs first, tasks last: the lock order of everything that fills concurrency limits.
        _cancel_open(tx, tenant, orphaned, f"Task type removed in version {registration.version}")
        tx.execute(_MARK_ORPHANED, {"tenant": tenant, "ids": orphaned, "now": tx.now})
        log.warning(
            "task.orphaned", extra={"tenant": tenant, "task_ids": orphaned, "version": registration.version}
        )
    return orphaned


def _cancel_open(tx: Transaction, tenant: str, task_ids: Collection[str], reason: str) -> None:
    # Here, because creating task runs in turn needs the registry.
    from pipeweave.orchestrator.runs import orphans

    orphans.cancel(tx, tenant, list(task_ids), reason)
