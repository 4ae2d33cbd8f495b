"""The chore of the tick that counts events: what is new becomes a part of the statistics, each event once.

A batch of events, the rows that they change and how far was counted are one transaction, which holds the lock
of the place: a process that dies before the commit has counted nothing, and after it everything; two
processes never count at once. Nothing waits for statistics, and what runs a step knows nothing of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pipeweave.orchestrator.feed import consumers, stretch
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Unfinished
from pipeweave.orchestrator.telemetry.statistics import counting, place, tallies, writing

# SQL: whether there is anything to count.
IS_DUE = consumers.is_due(place.CONSUMER)

# Events that one transaction counts.
BATCH = 2_000
# Groups of events that are written together.
GROUPS = 5_000
# Seconds that one tick counts; the next tick goes on.
TURN_S = 0.4

_GROUPS = counting.groups_sql(stretch.EVENTS)


def run_once(database: Database) -> int:
    """Count what is new, for about TURN_S seconds.

    Returns:
        How many transactions of this chore counted something.
    """
    ends = time.monotonic() + TURN_S
    done, more = 0, True
    while more and time.monotonic() < ends:
        counted, more = database.run(fold)
        done += counted
    return Unfinished(done) if more else done


def fold(tx: Transaction, batch: int | None = None) -> tuple[bool, bool]:
    """Count one batch of events.

    Args:
        batch: about how many events; None for BATCH.

    Returns:
        Whether there were any, and whether there may be more.
    """
    held = consumers.lock(tx, place.CONSUMER)
    if held is None:
        return False, False
    span = stretch.ahead(tx, held.seen, limit=BATCH if batch is None else batch)
    if not span.is_empty:
        add(tx, tx.execute(_GROUPS, {**span.parameters, "types": counting.TYPES}).all())
    consumers.move(tx, held, span)
    return not span.is_empty, span.more


def add(tx: Transaction, groups: Sequence[Any], *, has_totals: bool = True) -> None:
    """Add groups of what happened to the statistics.

    Args:
        groups: rows of `counting.groups_sql`.
        has_totals: whether the counters of all time count it, too.
    """
    # A session that is silent for seconds is ended, and one transaction may have written very many events.
    for each in range(0, len(groups), GROUPS):
        runs, tasks = tallies.of_groups(groups[each : each + GROUPS], tx.now, has_totals=has_totals)
        writing.add_runs(tx, runs)
        writing.add_tasks(tx, tasks)
