"""Brings together what each room declares that the audit tells of its objects."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.orchestrator.bundles import audited_objects as of_bundles
from pipeweave.orchestrator.deadletters import audited_objects as of_deadletters
from pipeweave.orchestrator.objects import audited_objects as of_objects
from pipeweave.orchestrator.operations import audited_objects as of_operations
from pipeweave.orchestrator.queueing import audited_objects as of_queueing
from pipeweave.orchestrator.registry import audited_objects as of_registry
from pipeweave.orchestrator.retention import audited_objects as of_retention
from pipeweave.orchestrator.runs import audited_objects as of_runs
from pipeweave.orchestrator.security import audited_objects as of_security
from pipeweave.orchestrator.security.object_state import Audited
from pipeweave.orchestrator.starts import audited_objects as of_starts

ROOMS = (
    *(of_security, of_registry, of_queueing, of_objects, of_runs),
    *(of_deadletters, of_operations, of_starts, of_bundles, of_retention),
)
# Kind -> what the audit tells of such an object. A kind belongs to one room.
AUDITED: Mapping[str, Audited] = {kind: each for room in ROOMS for kind, each in room.AUDITED.items()}
