"""The column of sessions that holds sealed texts: the refresh tokens of people."""

from __future__ import annotations

from pipeweave.orchestrator.security.rewrapping import SealedColumn

# As `person_sessions.purpose`.
SEALED = (SealedColumn("ui_sessions", "refresh_token", ("id",), "'refresh token of session ' || t.id"),)
