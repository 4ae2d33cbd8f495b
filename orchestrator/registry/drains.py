"""Drains workers, processes as well as instances of HTTP services: they take nothing more.

A Celery worker hears of it with its next heartbeat, and everybody else at once: `stopping_at` keeps work from
being placed at it. The drain belongs to the process: a worker that starts anew has another id and takes work.
The drain of an instance of an HTTP service belongs to its URL, so it stays when the service registers anew.
"""

from __future__ import annotations

from typing import Any

from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.store.database import Transaction

INSTANCE_PREFIX = "http:"
"""How the ids of instances begin, and those of worker processes do not."""

MAX_REASON = 1_000
"""The most characters of a reason."""

# SQL: the id of the instance `i`: its URL may have any characters.
_URL = "convert_to(i.service_id || ' ' || i.base_url, 'UTF8')"
INSTANCE_ID = f"'{INSTANCE_PREFIX}' || left(encode(sha256({_URL}), 'hex'), 16)"

_DRAIN_WORKER = """
UPDATE workers AS w SET drain_requested_at = coalesce(w.drain_requested_at, now()), drain_reason = :reason,
    stopping_at = coalesce(w.stopping_at, now())
WHERE w.tenant_id = :tenant AND w.id = :id AND w.stopped_at IS NULL
"""

# A worker that was asked to stop says so again with its next heartbeat.
_RESUME_WORKER = """
UPDATE workers AS w SET drain_requested_at = NULL, drain_reason = NULL, stopping_at = NULL
WHERE w.tenant_id = :tenant AND w.id = :id AND w.stopped_at IS NULL AND w.drain_requested_at IS NOT NULL
"""

_DRAIN_INSTANCE = f"""
UPDATE service_instances AS i SET drain_requested_at = coalesce(i.drain_requested_at, now()),
    drain_reason = :reason
WHERE i.tenant_id = :tenant AND {INSTANCE_ID} = :id
"""

_RESUME_INSTANCE = f"""
UPDATE service_instances AS i SET drain_requested_at = NULL, drain_reason = NULL
WHERE i.tenant_id = :tenant AND {INSTANCE_ID} = :id AND i.drain_requested_at IS NOT NULL
"""


def drain(tx: Transaction, tenant: str, worker_id: str, *, reason: str | None = None) -> None:
    """Let a worker take nothing more until it is resumed. Draining it again changes at most the reason.

    Raises:
        NotFound: the tenant has no such worker.
        Conflict: the worker has ended.
    """
    parameters = {"tenant": tenant, "id": worker_id, "reason": reason}
    if worker_id.startswith(INSTANCE_PREFIX):
        changed = tx.execute(_DRAIN_INSTANCE, parameters).rowcount
    else:
        changed = tx.execute(_DRAIN_WORKER, parameters).rowcount
    if not changed:
        raise _refusal(tx, tenant, worker_id)


def resume(tx: Transaction, tenant: str, worker_id: str) -> None:
    """Let a worker take work again.

    Raises:
        NotFound: the tenant has no such worker.
        Conflict: the worker has ended, or was not draining.
    """
    parameters = {"tenant": tenant, "id": worker_id}
    if worker_id.startswith(INSTANCE_PREFIX):
        changed = tx.execute(_RESUME_INSTANCE, parameters).rowcount
    else:
        changed = tx.execute(_RESUME_WORKER, parameters).rowcount
    if not changed:
        raise _refusal(tx, tenant, worker_id)


_PRESENT = f"""
SELECT w.stopped_at IS NOT NULL AS is_over FROM workers AS w WHERE w.tenant_id = :tenant AND w.id = :id
UNION ALL
SELECT false FROM service_instances AS i WHERE i.tenant_id = :tenant AND {INSTANCE_ID} = :id
"""


def _refusal(tx: Transaction, tenant: str, worker_id: str) -> NotFound | Conflict:
    row: Any = tx.execute(_PRESENT, {"tenant": tenant, "id": worker_id}).first()
    if row is None:
        return not_found(worker_id)
    if row.is_over:
        return Conflict(f"worker {worker_id!r} has ended")
    return Conflict(f"worker {worker_id!r} is not draining")


def not_found(worker_id: str) -> NotFound:
    """The error for an id that no worker of the tenant has."""
    shown = worker_id[:200]
    return NotFound(f"there is no worker {shown!r}", hint="`pipeweave workers` lists them", workerId=shown)
