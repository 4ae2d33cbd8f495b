"""Declares what the audit tells of dead letters."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave import ids
from pipeweave.orchestrator.security.object_state import Audited

_DEAD_LETTER = """
SELECT jsonb_build_object('retriedAt', d.retried_at, 'discardedAt', d.discarded_at) AS state
FROM dead_letters AS d WHERE d.id = :id AND d.tenant_id = :tenant
"""

AUDITED: Mapping[str, Audited] = {
    "dead letter": Audited(by_id=_DEAD_LETTER, prefix=ids.DEAD_LETTER),
    "dead letters": Audited(),
}
