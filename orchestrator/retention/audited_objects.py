"""Declares that the audit tells of months of history only how many were dropped."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.orchestrator.security.object_state import Audited

AUDITED: Mapping[str, Audited] = {"months": Audited()}
