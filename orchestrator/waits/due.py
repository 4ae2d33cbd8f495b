"""Looks at waits that are due: timers, time limits, and what a look was left for because its process died.

Beat looks four times a second, and the tick as its safety net; the lease keeps them apart. Tenants take
turns, and many runs share a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from pipeweave.orchestrator.domain.waits import POLL
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Isolation, Unfinished
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits.looking import Key, look

# Another process goes on when the one that looks was not heard of for so long.
LEASE = timedelta(seconds=5)
# Waits that are read together, and runs that share a transaction.
BATCH = 1_000
RUNS_PER_TRANSACTION = 50
# After this long (s) the rest is left to the next turn: a tick has other chores.
MAX_SECONDS = 0.5
# A wait and its signal that committed at the same moment see each other only here, where the processes that
# would have looked died. After this long nobody looks for such a pair any more.
PAIRED_FOR = timedelta(minutes=10)

# A poll is looked at by who asks its URL (dispatch/polls.py).
_IS_DUE = f"EXISTS (SELECT 1 FROM waits AS w WHERE w.due_at <= now() AND w.kind <> '{POLL}')"
# Votes and answers to polls come after their wait was read: they make no such pair.
_PAIRS = f"""
SELECT w.run_id, w.task_run_id, w.tenant_id, w.due_at FROM signals AS s
    JOIN waits AS w ON w.root_run_id = s.run_id AND s.name = ANY(w.names)
WHERE s.taken_at IS NULL AND s.sent_at > now() - interval '{PAIRED_FOR.total_seconds():.0f} seconds'
    AND w.kind IN ('signal', 'callback')
"""
# SQL: whether a wait is due, and may be looked at: a look at an index.
MAY_BE_LOOKED_AT = f"({_IS_DUE} AND {deployment_mode.MODE} <> '{deployment_mode.MAINTENANCE}')"
# SQL: whether there is anything for this chore.
IS_DUE = f"({_IS_DUE} OR EXISTS ({_PAIRS}))"

_DUE = f"""
SELECT o.run_id, o.task_run_id FROM (
    SELECT w.run_id, w.task_run_id, w.due_at,
        row_number() OVER (PARTITION BY w.tenant_id ORDER BY w.due_at, w.task_run_id) AS turn
    FROM ((SELECT d.run_id, d.task_run_id, d.tenant_id, d.due_at FROM waits AS d
           WHERE d.due_at <= now() AND d.kind <> '{POLL}' ORDER BY d.due_at LIMIT :window)
          UNION ({_PAIRS} LIMIT :window)) AS w) AS o
ORDER BY o.turn, o.due_at LIMIT :batch
"""


def run_once(database: Database, values: Values) -> int:
    """Look at what is due, for MAX_SECONDS at most. Returns how many waits ended.

    In maintenance nothing is looked at: timers wake late, oldest first.

    Raises:
        PartlyFailed: some runs could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        if deployment_mode.mode(tx) == deployment_mode.MAINTENANCE:
            return 0
    lease = leases.take(database, leases.WAITS, LEASE, leases.this_thread())
    if lease is None:
        return 0
    try:
        return _look(database, values)
    finally:
        leases.end(database, lease)


def _look(database: Database, values: Values) -> int:
    with database.statements() as tx:
        rows: list[Any] = list(tx.execute(_DUE, {"window": 10 * BATCH, "batch": BATCH}))
    done = look_at_all(database, values, [(row.run_id, row.task_run_id) for row in rows])
    return Unfinished(done) if len(rows) == BATCH else done


def look_at_all(database: Database, values: Values, keys: Sequence[Key]) -> int:
    """Look at these waits, for MAX_SECONDS at most; many runs share a transaction. Returns how many ended.

    Raises:
        PartlyFailed: some runs could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    until, isolation, ended = time.monotonic() + MAX_SECONDS, Isolation(database), 0
    for together in _together(keys):
        if time.monotonic() >= until:
            return Unfinished(isolation.finish(ended))
        ended += isolation.run_together(together, lambda some: look(database, values, some), "wait")
    return isolation.finish(ended)


def _together(keys: Sequence[Key]) -> Iterator[list[Key]]:
    """The waits of RUNS_PER_TRANSACTION runs at a time, the first ones first, each time in their order."""
    runs = [list(of_run) for _, of_run in groupby(keys, lambda key: key[0])]
    for start in range(0, len(runs), RUNS_PER_TRANSACTION):
        yield sorted(key for of_run in runs[start : start + RUNS_PER_TRANSACTION] for key in of_run)
