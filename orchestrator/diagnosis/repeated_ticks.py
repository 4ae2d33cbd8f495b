"""Setting going again what stands still: one tick after the other, until nothing is left or nothing moves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import stalled
from pipeweave.orchestrator.diagnosis.stalled import Kind, StalledItem
from pipeweave.orchestrator.recovery import tick

# Between two looks: as long as beat leaves between two ticks.
PAUSE_S = 1.0
# Losses are taken for such after two looks, and workers need a moment for what they are asked: what did not
# change for so long does not change any more. The longest way ends all the same.
UNCHANGED_S = 15.0
LONGEST_S = 300.0


@dataclass(slots=True)
class RecoveryResult:
    """What was done.

    Args:
        found: what stood still at first.
        left: what still does.
        done: by what a tick counts (`Ticked`), how much of it.
        ticks: how many there were; those that another process did meanwhile are not among them.
    """

    found: list[StalledItem]
    left: list[StalledItem]
    done: Counter[str] = field(default_factory=Counter)
    ticks: int = 0


def find_stalled(deployment: Deployment) -> list[StalledItem]:
    """What stands still now."""
    with deployment.database.reading() as tx:
        return stalled.find(tx, deployment.publisher, deployment.settings)


def tick_until_settled(
    deployment: Deployment,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> RecoveryResult:
    """Tick until nothing stands still, or what does has not changed for UNCHANGED_S, or for LONGEST_S. Not at
    all during maintenance, when no tick would do anything.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    found = find_stalled(deployment)
    recovery = RecoveryResult(found, found)
    if any(each.kind is Kind.MAINTENANCE for each in found):
        return recovery
    for _ in _while_something_changes(recovery, clock, sleep):
        ticked = tick.run_once(deployment)
        counts = asdict(ticked)
        recovery.ticks += not counts.pop("is_elsewhere")
        recovery.done.update({name: number for name, number in counts.items() if number})
        recovery.left = find_stalled(deployment)
    return recovery


def _while_something_changes(
    recovery: RecoveryResult, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[None]:
    began = changed = clock()
    before = recovery.left
    while recovery.left and clock() - changed <= UNCHANGED_S and clock() - began <= LONGEST_S:
        yield
        if recovery.left != before:
            before, changed = recovery.left, clock()
        if recovery.left:
            sleep(PAUSE_S)
