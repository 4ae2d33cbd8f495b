"""Stores services, checks who owns a task, and marks tasks as orphaned (removed).

`runs/service_registration.py` calls these verbs in one transaction, under the tenant's
registration lock.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipeweave.errors import FieldError, TaskOwnedElsewhere
from pipeweave.orchestrator.registry import loaded_tasks
from pipeweave.orchestrator.registry.code_versions import SETTLED_AFTER
from pipeweave.orchestrator.registry.registration import Registration
from pipeweave.orchestrator.registry.task_rows import queue_name
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

_PREVIOUS = """
SELECT s.version, s.kind, s.status, s.base_url_override, EXISTS (
    SELECT 1 FROM workers AS w
    WHERE w.tenant_id = s.tenant_id AND w.service_id = s.id AND w.stopped_at IS NULL) AS has_workers
FROM services AS s WHERE s.tenant_id = :tenant AND s.id = :id FOR NO KEY UPDATE OF s
"""

_STORE_SERVICE = """
INSERT INTO services (tenant_id, id, kind, version, base_url, queue, token_format, storage_access, status,
    registered_at, last_heartbeat)
VALUES (:tenant, :id, :kind, :version, :base_url, :queue, :token_format, :storage_access, 'active', :now,
    :now)
ON CONFLICT (tenant_id, id) DO UPDATE SET kind = excluded.kind, version = excluded.version,
    base_url = excluded.base_url, queue = excluded.queue, token_format = excluded.token_format,
    storage_access = excluded.storage_access, status = 'active', last_heartbeat = excluded.last_heartbeat,
    registered_at = CASE WHEN services.version = excluded.version THEN services.registered_at
                         ELSE excluded.registered_at END
"""


def store(tx: Transaction, tenant: str, registration: Registration, *, by_worker: bool) -> str | None:
    """Write the service; returns its previous version, or None when the service is new.

    Args:
        by_worker: whether a Celery worker registers what it has loaded. Nobody else may say what a service
            with live Celery workers has, nor make an HTTP service of it.

    Raises:
        TaskOwnedElsewhere: the service has live Celery workers, and none of them registers.
    """
    parameters = {
        "tenant": tenant,
        "id": registration.service_id,
        "kind": registration.kind,
        "version": registration.version,
        "base_url": registration.target,
        "queue": queue_name(tenant, registration.service_id, registration.kind),
        "token_format": registration.token_format,
        "storage_access": registration.storage_access,
        "now": tx.now,
    }
    previous = tx.execute(_PREVIOUS, parameters).one_or_none()
    if previous is not None and previous.kind == "python":
        _check_kind(registration, previous, by_worker=by_worker)
    tx.execute(_STORE_SERVICE, parameters)
    if previous is not None and previous.kind != registration.kind:
        tx.execute(_MOVE_TASKS, {**parameters, "settled": SETTLED_AFTER})
    return None if previous is None else str(previous.version)


# Its open task runs follow to the other queue: see recovery/task_moves.py.
_MOVE_TASKS = """
UPDATE tasks SET follow_at = now(), follow_until = now() + CAST(:settled AS interval)
WHERE tenant_id = :tenant AND service_id = :id
"""


def _check_kind(registration: Registration, previous: Any, *, by_worker: bool) -> None:
    is_taken = previous.has_workers or (registration.kind == "http" and previous.status == "active")
    if by_worker or not is_taken:
        return
    fault = FieldError(
        "serviceId", f"{registration.service_id!r} has Celery workers that run its tasks", "owned"
    )
    raise TaskOwnedElsewhere(
        f"service {fault.message}", errors=[fault], hint="give the service another id, or stop the workers"
    )


# A task that no live worker of its service has is free, unless it has no worker at all.
_STORED = f"""
SELECT t.*, s.status = 'active' AND (s.kind = 'http'
        OR {loaded_tasks.is_loaded_sql("t.tenant_id", "t.service_id", "t.id")}
        OR NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.tenant_id = s.tenant_id AND w.service_id = s.id
            AND w.stopped_at IS NULL)) AS is_owned
FROM tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id
WHERE t.tenant_id = :tenant AND t.id = ANY(CAST(:ids AS text[]))
"""


def stored_tasks(tx: Transaction, tenant: str, registration: Registration) -> dict[str, Any]:
    """The rows of the tasks that a registration names, by id, each with whether its service holds it."""
    rows = tx.execute(_STORED, {"tenant": tenant, "ids": [task.id for task in registration.tasks]})
    return {row.id: row for row in rows}


def check_owners(registration: Registration, stored: Mapping[str, Any]) -> None:
    """Check that each task belongs to this service, to nobody who still has it, or was removed.

    Raises:
        TaskOwnedElsewhere: another active service has the task.
    """
    faults = []
    for at, task in enumerate(registration.tasks):
        row = stored.get(task.id)
        if row is None or row.service_id == registration.service_id:
            continue
        if row.is_owned and row.orphaned_at is None:
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
            hint="give the task another id, or stop the other service",
        )


# What another live instance of the service still serves is not removed: versions may run side by side.
_NOT_NAMED = """
SELECT t.id FROM tasks AS t WHERE t.tenant_id = :tenant AND t.service_id = :service
    AND t.orphaned_at IS NULL AND NOT t.id = ANY(CAST(:kept AS text[]))
    AND NOT EXISTS (SELECT 1 FROM service_instances AS i WHERE i.tenant_id = t.tenant_id
        AND i.service_id = t.service_id AND i.base_url <> :target AND i.set_aside_at IS NULL
        AND t.id = ANY(i.tasks))
ORDER BY t.id
"""


def tasks_not_named(tx: Transaction, tenant: str, registration: Registration) -> list[str]:
    """The ids of the service's tasks that neither a registration nor another live instance names, sorted."""
    kept = [task.id for task in registration.tasks]
    parameters = {
        "tenant": tenant,
        "service": registration.service_id,
        "kept": kept,
        "target": registration.target or "",
    }
    return list(tx.execute(_NOT_NAMED, parameters).scalars())


_LOCK_TASKS = """
SELECT 1 FROM tasks WHERE tenant_id = :tenant AND id = ANY(CAST(:ids AS text[]))
ORDER BY id FOR NO KEY UPDATE
"""


def lock_tasks(tx: Transaction, tenant: str, task_ids: Collection[str]) -> None:
    """Lock the rows of tasks in the order of their names, as everything does that fills limits."""
    if task_ids:
        tx.execute(_LOCK_TASKS, {"tenant": tenant, "ids": list(task_ids)})


_MARK_ORPHANED = """
UPDATE tasks SET orphaned_at = :now, updated_at = :now
WHERE tenant_id = :tenant AND id = ANY(CAST(:ids AS text[]))
"""


def mark_orphaned(tx: Transaction, tenant: str, task_ids: Sequence[str]) -> None:
    """Mark tasks as orphaned: their service no longer has them."""
    tx.execute(_MARK_ORPHANED, {"tenant": tenant, "ids": list(task_ids), "now": tx.now})
