"""Declares what the audit tells of bundles and of their keys."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.orchestrator.security.object_state import Audited

# A request names a key by its id or its name; one that adds a key names it by its name.
_KEY = """
SELECT jsonb_object_agg(k.id, jsonb_build_object('name', k.name, 'revokedAt', k.revoked_at)) AS state
FROM bundle_keys AS k WHERE k.tenant_id = :tenant AND (k.id = :object OR k.name = :object)
"""
# Its versions; a request names the bundle, and perhaps a version behind a slash.
_BUNDLE = """
SELECT jsonb_object_agg(b.version, jsonb_build_object('state', b.state, 'contentHash', b.content_hash,
    'keyIds', b.key_ids)) AS state
FROM bundles AS b WHERE b.tenant_id = :tenant AND b.id = split_part(:object, '/', 1)
"""

AUDITED: Mapping[str, Audited] = {
    "bundle": Audited(_BUNDLE),
    "bundle key": Audited(_KEY),
}
