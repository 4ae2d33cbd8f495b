"""Declares what the audit tells of uploads; the sweep of objects changes many at once."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave import ids
from pipeweave.orchestrator.security.object_state import Audited

_UPLOAD = """
SELECT jsonb_build_object('deletedAt', u.deleted_at) AS state FROM temp_uploads AS u
WHERE u.id = :id AND u.tenant_id = :tenant
"""

AUDITED: Mapping[str, Audited] = {
    "upload": Audited(by_id=_UPLOAD, prefix=ids.UPLOAD),
    "objects": Audited(),
}
