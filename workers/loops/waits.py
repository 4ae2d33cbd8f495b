"""Looks at waits that are due: the next tick may be a second away, and people and callers notice that."""

from __future__ import annotations

import threading

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.waits import due
from pipeweave.workers.loops.loop import Turn

# Between two looks at an index that is nearly always empty (s).
EVERY_S = 0.25


def turns(deployment: Deployment) -> Turn:
    """Each looks at what is due, and at the rest of it at once when there is more than a turn takes."""
    database, values = deployment.database, deployment.values

    def turn(_: threading.Event) -> float:
        if not due.is_due(database):
            return EVERY_S
        return 0.0 if due.run_once(database, values) else EVERY_S

    return turn
