"""Brings together the columns in which rooms store sealed texts."""

from __future__ import annotations

from pipeweave.orchestrator.security import sealed_columns as of_security
from pipeweave.orchestrator.security.rewrapping import SealedColumn
from pipeweave.orchestrator.starts import sealed_columns as of_starts

SEALED: tuple[SealedColumn, ...] = (*of_starts.SEALED, *of_security.SEALED)
