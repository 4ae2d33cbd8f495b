"""Retention: archives and drops months, on connections of its own.

A month may take minutes, and a tick has milliseconds. When the process ends in the middle of a month, the
next one goes on (orchestrator/retention/drop_months.py). One month is dropped each month: a process of its
own would wait nearly all the time.
"""

from __future__ import annotations

import threading

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.retention import Policy, drop_months
from pipeweave.workers.loops.loop import Turn

# Between two passes (s), and after one that failed or found a table in use.
EVERY_S = 3_600.0
AGAIN_AFTER_S = 300.0


def turns(deployment: Deployment) -> Turn | None:
    """Each is a pass over the months that are due; None when runs are kept for ever."""
    policy, storage = Policy.of(deployment.settings), deployment.values.backends.default
    if policy.runs is None:
        return None

    def turn(_: threading.Event) -> float:
        drop_months.check_clock(deployment.database)
        done = drop_months.run_once(deployment.database, storage, policy)
        is_in_use = any(each.outcome is drop_months.MonthOutcome.IN_USE for each in done)
        return AGAIN_AFTER_S if is_in_use else EVERY_S

    return turn
