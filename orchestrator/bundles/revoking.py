"""Revokes versions of bundles. A version that is revoked stays so, and no older one takes its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave.errors import NotFound
from pipeweave.orchestrator.bundles import parking
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class RevokedBundle:
    """A version that counts no more, and the tasks that wait for another one."""

    id: str
    version: str
    parked: tuple[str, ...]


_CHOSEN = """
SELECT version, state, task_ids FROM bundles
WHERE tenant_id = :tenant AND id = :id AND (CAST(:version AS text) IS NULL OR version = :version)
ORDER BY state = 'installed' DESC, version_order DESC LIMIT 1
"""
_REVOKE = """
UPDATE bundles SET state = 'revoked', revoked_at = :now, revoke_reason = :reason
WHERE tenant_id = :tenant AND id = :id AND version = :version AND state <> 'revoked'
"""


def revoke(
    tx: Transaction, tenant: str, bundle_id: str, version: str | None = None, reason: str | None = None
) -> RevokedBundle:
    """Let a version of a bundle count no more. If it was the one that counts, its tasks are parked until
    another version is installed.

    Args:
        version: by default the one that is installed, else the newest.

    Raises:
        NotFound: the tenant has no such bundle or version.
    """
    service_registration.begin(tx, tenant)
    named: dict[str, Any] = {"tenant": tenant, "id": bundle_id, "version": version}
    row = tx.execute(_CHOSEN, named).one_or_none()
    if row is None:
        if version is None:
            raise unknown_names.not_found(tx, tenant, "bundle", bundle_id)
        raise NotFound(f"bundle {bundle_id!r} has no version {version[:100]!r}")
    tx.execute(_REVOKE, {**named, "version": row.version, "reason": reason, "now": tx.now})
    parked = tuple(row.task_ids) if row.state == "installed" else ()
    parking.park(tx, tenant, parked)
    return RevokedBundle(bundle_id, row.version, parked)
