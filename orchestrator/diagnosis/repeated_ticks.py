"""Runs tick after tick until nothing is stalled, or until the stalled work no longer changes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import stalled
from pipeweave.orchestrator.diagnosis.stalled import StalledItem, StalledKind
from pipeweave.orchestrator.recovery import tick

# Between two ticks (s), as in beat.
PAUSE_S = 1.0
# Stop when the stalled work has not changed for UNCHANGED_S: the tick needs two passes to find a lost worker,
# and workers need a moment to answer its messages. Stop after LONGEST_S in any case.
UNCHANGED_S = 15.0
LONGEST_S = 300.0


@dataclass(slots=True)
class RecoveryResult:
    """The result of repeated ticks.

    Args:
        stalled: the items that were stalled at first.
        left: the items that are still stalled.
        done: the ticks' counts by name, without zeros.
        ticks: how many ticks this process ran; ticks of another process are not counted.
    """

    stalled: list[StalledItem]
    left: list[StalledItem]
    done: Counter[str] = field(default_factory=Counter)
    ticks: int = 0


def find_stalled(deployment: Deployment) -> list[StalledItem]:
    """The items that are stalled now."""
    with deployment.database.reading() as tx:
        return stalled.find(tx, deployment.publisher, deployment.settings)


def tick_until_settled(
    deployment: Deployment,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> RecoveryResult:
    """Tick until nothing is stalled, nothing has changed for UNCHANGED_S, or LONGEST_S has passed.

    During maintenance this runs no tick, because a tick would do nothing.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    stalled_items = find_stalled(deployment)
    recovery = RecoveryResult(stalled_items, stalled_items)
    if any(each.kind is StalledKind.MAINTENANCE for each in stalled_items):
        return recovery
    for _ in _while_something_changes(recovery, clock, sleep):
        ticked = tick.run_once(deployment, is_urgent=True)
        recovery.ticks += not ticked.is_elsewhere
        recovery.done.update({name: number for name, number in ticked.counts().items() if number})
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
