"""Takes the tasks of bundles away from the workers that have loaded them.

A worker finds out by itself, and unloads them (`workers/bundles`). Until then its row says no more that it
has them, so what starts meanwhile waits in the parking queue of its task, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection

from pipeweave.orchestrator.store.database import Transaction

SERVICE = "bundles"
"""The service of all bundles of a tenant."""

# SQL: one of the keys that signed the bundle `b` is trusted.
IS_TRUSTED = """EXISTS (SELECT 1 FROM bundle_keys AS k
    WHERE k.tenant_id = b.tenant_id AND k.id = ANY(b.key_ids) AND k.revoked_at IS NULL)"""

_UNTRUSTED = f"""
SELECT id, task_ids FROM bundles AS b WHERE tenant_id = :tenant AND state = 'installed' AND NOT {IS_TRUSTED}
"""


def park_untrusted(tx: Transaction, tenant: str) -> tuple[str, ...]:
    """Park the tasks of bundles of which every key is revoked; the ids of these bundles."""
    rows = tx.execute(_UNTRUSTED, {"tenant": tenant}).all()
    park(tx, tenant, {task for row in rows for task in row.task_ids})
    return tuple(sorted(row.id for row in rows))


_FORGET = """
DELETE FROM worker_tasks AS h USING workers AS w
WHERE w.id = h.worker_id AND w.service_id = :service AND h.tenant_id = :tenant
  AND h.task_id = ANY(CAST(:tasks AS text[]))
"""


def park(tx: Transaction, tenant: str, tasks: Collection[str]) -> None:
    """Let no worker of bundles count as one that has these tasks."""
    if tasks:
        tx.execute(_FORGET, {"service": SERVICE, "tenant": tenant, "tasks": sorted(tasks)})
