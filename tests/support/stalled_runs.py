"""Runs that stand still, and a broker that says how long its queues are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import repeated_ticks
from pipeweave.orchestrator.diagnosis.stalled import LATE, StalledItem
from support.run_driver import Clock, RunDriver

WIDE = {"a": [], **{f"b{n}": ["a"] for n in range(8)}, "c": [f"b{n}" for n in range(8)]}


def later(clock: Clock, by: timedelta = LATE) -> None:
    """Move the clock on by this and a second more."""
    clock.ahead += by + timedelta(seconds=1)


def past(driver: RunDriver, statement: str, **parameters: Any) -> None:
    """Change what the database's own clock wrote, so that it is long ago."""
    with driver.database.transaction() as tx:
        tx.execute(statement, parameters)


def found(deployment: Deployment) -> list[StalledItem]:
    """Everything that stands still."""
    return repeated_ticks.find_stalled(deployment)
