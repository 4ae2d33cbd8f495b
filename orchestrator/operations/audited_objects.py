"""Declares what the audit tells of redrives and bulk changes."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave import ids
from pipeweave.orchestrator.security.object_state import Audited

_REDRIVE = """
SELECT jsonb_build_object('status', r.status, 'retried', r.retried, 'skipped', r.skipped) AS state
FROM redrives AS r WHERE r.id = :id AND r.tenant_id = :tenant
"""
_BULK_CHANGE = """
SELECT jsonb_build_object('status', b.status, 'changed', b.changed, 'skipped', b.skipped) AS state
FROM bulk_changes AS b WHERE b.id = :id AND b.tenant_id = :tenant
"""

AUDITED: Mapping[str, Audited] = {
    "redrive": Audited(by_id=_REDRIVE, prefix=ids.REDRIVE),
    "bulk change": Audited(by_id=_BULK_CHANGE, prefix=ids.BULK),
}
