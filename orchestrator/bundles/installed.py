"""Says which bundles the workers of a tenant have to load, and why a task of a bundle is not loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave.orchestrator.bundles.parking import IS_TRUSTED, SERVICE
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class InstalledBundle:
    """A bundle that counts now: its version, the hash of its content, the keys, and where its file is."""

    id: str
    version: str
    content_hash: str
    key_ids: tuple[str, ...]
    storage_path: str


_INSTALLED = f"""
SELECT b.id, b.version, b.content_hash, b.key_ids, b.storage_path FROM bundles AS b
WHERE b.tenant_id = :tenant AND b.state = 'installed' AND {IS_TRUSTED} ORDER BY b.id
"""


def installed(tx: Transaction, tenant: str) -> tuple[InstalledBundle, ...]:
    """What the workers of a tenant have to load, by id."""
    rows: list[Any] = list(tx.execute(_INSTALLED, {"tenant": tenant}))
    return tuple(
        InstalledBundle(row.id, row.version, row.content_hash, tuple(row.key_ids), row.storage_path)
        for row in rows
    )


@dataclass(frozen=True, slots=True)
class BundleOfTask:
    """The bundle that a task belongs to, in the version that counts, else in the last one that did."""

    id: str
    version: str
    state: str
    is_trusted: bool
    key_ids: tuple[str, ...]
    reason: str | None


_OF_TASK = f"""
SELECT b.id, b.version, b.state, b.key_ids, {IS_TRUSTED} AS is_trusted,
    coalesce(b.revoke_reason, (SELECT k.revoke_reason FROM bundle_keys AS k
        WHERE k.tenant_id = b.tenant_id AND k.id = ANY(b.key_ids) AND k.revoked_at IS NOT NULL
        ORDER BY k.revoked_at DESC LIMIT 1)) AS reason
FROM bundles AS b JOIN tasks AS t ON t.tenant_id = b.tenant_id AND t.id = :task AND t.service_id = :service
WHERE b.tenant_id = :tenant AND b.task_ids @> ARRAY[CAST(:task AS text)]
ORDER BY b.state = 'installed' DESC, b.installed_at DESC LIMIT 1
"""


def bundle_of_task(tx: Transaction, tenant: str, task: str) -> BundleOfTask | None:
    """The bundle of a task; None of a task that no bundle has brought."""
    row: Any = tx.execute(_OF_TASK, {"tenant": tenant, "task": task, "service": SERVICE}).one_or_none()
    if row is None:
        return None
    return BundleOfTask(row.id, row.version, row.state, row.is_trusted, tuple(row.key_ids), row.reason)
