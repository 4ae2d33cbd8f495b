"""The columns of triggers that hold sealed texts: the secrets of webhooks."""

from __future__ import annotations

from pipeweave.orchestrator.security.rewrapping import SealedColumn

_KEY = ("tenant_id", "id")
# As `storing.purpose`.
_PURPOSE = "'trigger/' || t.tenant_id || '/' || t.id"

SEALED = (
    SealedColumn("triggers", "secret", _KEY, _PURPOSE),
    SealedColumn("triggers", "old_secret", _KEY, _PURPOSE),
)
