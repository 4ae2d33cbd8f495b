"""Declares what the audit tells of tokens and of the sessions of browsers."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.orchestrator.security.access_tokens import TOKEN_ID
from pipeweave.orchestrator.security.object_state import Audited
from pipeweave.orchestrator.security.sessions import SESSION_ID

_TOKEN = """
SELECT jsonb_object_agg(CAST(t.id AS text), jsonb_build_object('tenants', t.tenants, 'scopes', t.scopes,
    'expiresAt', t.expires_at, 'networks', t.networks, 'serviceId', t.service_id, 'certificate', t.certificate
    )) AS state
FROM access_tokens AS t WHERE t.name = :object AND t.revoked_at IS NULL
"""
_TOKEN_BY_ID = """
SELECT jsonb_build_object('name', t.name, 'revokedAt', t.revoked_at) AS state
FROM access_tokens AS t WHERE t.id = :id
"""
_SESSION = """
SELECT jsonb_build_object('tokenName', COALESCE(t.name, 'oidc:' || s.subject), 'agent', s.agent) AS state
FROM ui_sessions AS s LEFT JOIN access_tokens AS t ON t.id = s.token_id WHERE s.id = :id
"""

AUDITED: Mapping[str, Audited] = {
    "token": Audited(_TOKEN, _TOKEN_BY_ID, TOKEN_ID),
    "session": Audited(by_id=_SESSION, prefix=SESSION_ID),
    "link": Audited(),
    "stored_secret": Audited(),
}
