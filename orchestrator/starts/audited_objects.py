"""Declares what the audit tells of schedules and triggers."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.orchestrator.security.object_state import Audited

_SCHEDULE = """
SELECT to_jsonb(s) - '{tenant_id, id, created_at, updated_at}'::text[] AS state FROM schedules AS s
WHERE s.tenant_id = :tenant AND s.id = :object
"""
# Its secrets are sealed; that they changed is told by when, not by what.
_TRIGGER = """
SELECT to_jsonb(t) - '{tenant_id, id, created_at, secret, old_secret, on_time}'::text[] AS state
FROM triggers AS t WHERE t.tenant_id = :tenant AND t.id = :object
"""

AUDITED: Mapping[str, Audited] = {
    "schedule": Audited(_SCHEDULE),
    "trigger": Audited(_TRIGGER),
}
