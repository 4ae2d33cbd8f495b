"""Registers a service and its tasks. A new version of an HTTP service removes the tasks that it does not
name; no worker takes a task away from another one.

Registrations of one tenant run one after the other (an advisory lock, held to the end of the transaction), so
that worker processes that start at the same time agree on owners and code versions. Rows of tasks that did
not change are not written: of eight such processes, seven write only the heartbeat of the service.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.registry import derived_pipelines, instances, services
from pipeweave.orchestrator.registry.code_versions import CodeChange, store_tasks
from pipeweave.orchestrator.registry.registration import Registration, check
from pipeweave.orchestrator.registry.tenants import ensure_tenant
from pipeweave.orchestrator.runs import orphans
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)


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


def begin(tx: Transaction, tenant: str) -> None:
    """Wait until no other registration of the tenant goes on.

    Only who locks rows before `register` needs it: that does the same.
    """
    ensure_tenant(tx, tenant)
    advisory_locks.hold_tenant_until_commit(tx, advisory_locks.REGISTRATION, tenant)


def register(
    tx: Transaction, tenant: str, registration: Registration, *, by_worker: bool = False
) -> Registered:
    """Store a service and its tasks.

    A changed code hash raises the task's code version by one, also when it changes back to an old hash. When
    the version of an HTTP service changed, the tasks that none of its live instances names are orphaned, and
    their task runs that have not started are cancelled. A Python service keeps them: other workers may have
    them. The pipelines that `allowed_next` of an HTTP service describes are stored. An instance of an HTTP
    service that registers again in the same form changes nothing.

    Args:
        by_worker: whether a Celery worker registers what it has loaded.

    Raises:
        InvalidTask: a field is wrong; nothing is stored.
        TaskOwnedElsewhere: a task belongs to another active service, or the service has live Celery workers
            and none of them registers.
    """
    check(registration)
    begin(tx, tenant)
    is_http = registration.kind == "http"
    if is_http and instances.seen_again(tx, tenant, registration):
        return Registered([], [])
    previous_version = services.store(tx, tenant, registration, by_worker=by_worker)
    stored = services.stored_tasks(tx, tenant, registration)
    services.check_owners(registration, stored)
    orphaned: list[str] = []
    touched = TouchedLimits()
    if is_http and previous_version not in (None, registration.version):
        orphaned = _orphan(tx, tenant, registration, stored, touched)
    if is_http:
        instances.store(tx, tenant, registration)
    changes = store_tasks(tx, tenant, registration, stored)
    touched.fill(tx)
    if is_http:
        derived_pipelines.store(tx, tenant, registration)
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


def _orphan(
    tx: Transaction,
    tenant: str,
    registration: Registration,
    stored: Mapping[str, Any],
    touched: TouchedLimits,
) -> list[str]:
    """Orphan the service's tasks that the new version does not name. Returns their ids.

    Args:
        stored: the rows of the tasks that the new version names.
        touched: told the tasks whose limits have to be filled.
    """
    orphaned = services.tasks_not_named(tx, tenant, registration)
    if orphaned:
        # Task runs first, then all rows of tasks that this registration writes or whose limits it fills, in
        # the order of their names: see store/lock_order.py.
        orphans.cancel_unstarted(
            tx, tenant, orphaned, f"Task type removed in version {registration.version}", touched
        )
        services.lock_tasks(tx, tenant, touched.of(tenant).union(orphaned, stored))
        services.mark_orphaned(tx, tenant, orphaned)
        log.warning(
            "task.orphaned", extra={"tenant": tenant, "task_ids": orphaned, "version": registration.version}
        )
    return orphaned
