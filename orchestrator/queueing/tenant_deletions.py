"""Asks for the deletion of a tenant, which the tick does (retention/tenant_deletion.py), and shows it."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from pipeweave.errors import Conflict
from pipeweave.orchestrator.queueing import tenant_limits
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)

# Workers that an error names.
SHOWN_WORKERS = 5

_WORKERS = """
SELECT w.name FROM workers AS w
WHERE w.tenant_id = :tenant AND w.stopped_at IS NULL AND w.heartbeat_at > now() - CAST(:silent AS interval)
ORDER BY w.name LIMIT :most
"""
# A tenant of this name may have been deleted before. One that is under way keeps its numbers.
_REQUEST = """
INSERT INTO tenant_deletions AS d (tenant_id, requested_at, requested_by) VALUES (:tenant, :now, :by)
ON CONFLICT (tenant_id) DO UPDATE SET requested_at = EXCLUDED.requested_at,
    requested_by = EXCLUDED.requested_by, deleted_runs = 0, deleted_rows = 0, finished_at = NULL
WHERE d.finished_at IS NOT NULL
"""


def request(tx: Transaction, tenant: str, *, by: str | None = None) -> None:
    """Disable a tenant, and let the tick delete it: its runs, definitions, tokens and uploads.

    Rows of the audit stay. Objects are left to the sweep, which deletes what no row refers to. Again, it
    changes nothing.

    Raises:
        NotFound: there is no such tenant.
        Conflict: workers of the tenant are alive; they would make it anew.
    """
    tenant_limits.disable(tx, tenant, reason="it is being deleted", by=by)
    silent: timedelta = worker_processes.LOST_AFTER
    parameters = {"tenant": tenant, "silent": silent, "most": SHOWN_WORKERS}
    if alive := list(tx.execute(_WORKERS, parameters).scalars()):
        raise Conflict(
            f"workers of tenant {tenant!r} are alive: {', '.join(alive)}",
            hint="stop them first: they would register again, and make the tenant anew",
        )
    tx.execute(_REQUEST, {"tenant": tenant, "now": tx.now, "by": by and by[: tenant_limits.MAX_NAME]})
    log.info("tenant.deletion_requested", extra={"tenant": tenant})


_FIND = """
SELECT d.tenant_id, d.requested_at, d.requested_by, d.deleted_runs, d.deleted_rows, d.finished_at
FROM tenant_deletions AS d WHERE d.tenant_id = :tenant
"""


def find(tx: Transaction, tenant: str) -> Any:
    """The last deletion of a tenant of this name; None if there was none."""
    return tx.execute(_FIND, {"tenant": tenant}).one_or_none()
