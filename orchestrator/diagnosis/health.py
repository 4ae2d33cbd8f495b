"""Answers whether a deployment is healthy, at a cost that does not grow with its work.

Anyone may ask, as often as a load balancer does: it is one query over single rows, on a reserved connection,
so that it waits neither for lists nor for downloads from storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pipeweave.orchestrator.recovery.tick_status import FAILING, LastTick
from pipeweave.orchestrator.state.deployment_mode import MAINTENANCE, RUNNING, WAITING
from pipeweave.orchestrator.store.database import Database

HEALTH = f"""
SELECT s.mode, s.mode_changed_at, s.reason, s.last_tick_at, now() - s.last_tick_at AS age,
       {FAILING} AS failing
FROM orchestrator_state AS s
"""

_MESSAGES = {
    RUNNING: "New work is accepted.",
    WAITING: "New work is refused; maintenance mode begins when all runs have ended.",
    MAINTENANCE: "Nothing runs, and new work is refused.",
}


@dataclass(frozen=True, slots=True)
class DeploymentHealth:
    """What is known without counting anything.

    Args:
        mode: the maintenance mode.
        mode_changed_at: since when.
        reason: why there is or will be maintenance, as the administrator said.
        message: what the mode means.
        last_tick: when it was, and which of its chores fail.
    """

    mode: str
    mode_changed_at: datetime
    reason: str | None
    message: str
    last_tick: LastTick


def health(database: Database) -> DeploymentHealth:
    """The health of a deployment now.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.reserved() as tx:
        row = tx.execute(HEALTH).one()
    last_tick = LastTick(row.last_tick_at, row.age, tuple(row.failing))
    return DeploymentHealth(row.mode, row.mode_changed_at, row.reason, _MESSAGES[row.mode], last_tick)
