"""Declares what the audit tells of pipelines, services, workers and saved views."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.orchestrator.registry.views import VIEW_ID
from pipeweave.orchestrator.security.object_state import Audited

_PIPELINE = """
SELECT jsonb_build_object('version', p.latest_version, 'promoted', p.promoted_version) AS state
FROM pipelines AS p WHERE p.tenant_id = :tenant AND p.id = :object
"""
_SERVICE = """
SELECT to_jsonb(s) - '{tenant_id, id, last_heartbeat}'::text[] AS state FROM services AS s
WHERE s.tenant_id = :tenant AND s.id = :object
"""
_WORKER = """
SELECT jsonb_build_object('drainRequestedAt', w.drain_requested_at, 'drainReason', w.drain_reason) AS state
FROM workers AS w WHERE w.tenant_id = :tenant AND w.id = :object
"""
_VIEW = """
SELECT jsonb_object_agg(v.screen, v.query) AS state FROM views AS v
WHERE v.tenant_id = :tenant AND v.name = :object
"""
_VIEW_BY_ID = """
SELECT jsonb_build_object('screen', v.screen, 'name', v.name, 'query', v.query) AS state
FROM views AS v WHERE v.id = :id AND v.tenant_id = :tenant
"""

AUDITED: Mapping[str, Audited] = {
    "pipeline": Audited(_PIPELINE),
    "service": Audited(_SERVICE),
    "worker": Audited(_WORKER),
    "view": Audited(_VIEW, _VIEW_BY_ID, VIEW_ID),
}
