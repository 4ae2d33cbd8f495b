"""Looks at waits that are due: timers, time limits, and what a look was left for because its process died.

Beat looks four times a second, and the tick as its safety net; the lease keeps them apart. Tenants take
turns, and many runs share a transaction. Waits that need something of storage are looked at beside the
others, which so never wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from pipeweave.orchestrator.domain.waits import POLL
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Isolation, Unfinished
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits.held import FETCHED_TOGETHER
from pipeweave.orchestrator.waits.loading import look
from pipeweave.orchestrator.waits.looking import Key, look_without_storage

# Another process goes on when the one that looks was not heard of for so long.
LEASE = timedelta(seconds=5)
# Waits that are read together, and runs that share a transaction.
BATCH = 1_000
RUNS_PER_TRANSACTION = 50
# Tenants that one look asks for due waits, while there are more of these than it takes.
TENANTS = 500
# After this long (s) the rest is left to the next turn: a tick has other chores.
MAX_SECONDS = 0.5
# A wait and its signal that committed at the same moment see each other only here, where the processes that
# would have looked died. After this long nobody looks for such a pair any more.
PAIRED_FOR = timedelta(minutes=10)

# A poll is looked at by who asks its URL (dispatch/polls.py).
_PLAIN = f"w.kind <> '{POLL}' AND NOT w.needs_storage"
_STORED = "w.needs_storage"
# The same as _PLAIN, which matches no index by tenant on purpose: what is due in all tenants is read by time.
_ANYBODYS = f"w.kind || '' <> '{POLL}' AND NOT w.needs_storage"
_IS_DUE = f"EXISTS (SELECT 1 FROM waits AS w WHERE w.due_at <= now() AND {_ANYBODYS})"
# SQL: whether there is anything for the chore that waits for storage.
IS_STORED_DUE = f"EXISTS (SELECT 1 FROM waits AS w WHERE w.due_at <= now() AND {_STORED})"
# Votes and answers to polls come after their wait was read: they make no such pair.
_PAIRS = f"""
SELECT w.run_id, w.task_run_id, w.tenant_id, w.due_at FROM signals AS s
    JOIN waits AS w ON w.root_run_id = s.run_id AND s.name = ANY(w.names)
WHERE s.taken_at IS NULL AND s.sent_at > now() - interval '{PAIRED_FOR.total_seconds():.0f} seconds'
    AND w.kind IN ('signal', 'callback') AND NOT w.needs_storage
"""
_IS_OPEN = f"{deployment_mode.MODE} <> '{deployment_mode.MAINTENANCE}'"
# SQL: whether a wait is due, and may be looked at: a look at an index. The same for those that need storage.
MAY_BE_LOOKED_AT = f"({_IS_DUE} AND {_IS_OPEN})"
MAY_BE_LOADED = f"({IS_STORED_DUE} AND {_IS_OPEN})"
# SQL: whether there is anything for the chore that waits for nothing.
IS_DUE = f"({_IS_DUE} OR EXISTS ({_PAIRS}))"


def _due(which: str, by_time: str, also: str = "") -> str:
    """SQL: the waits to look at next; tenants take turns.

    The oldest ones are all that are due, unless a batch is full of them. Then those of one tenant may hide
    the others': tenants are asked in the order of their names, with one look at an index for each. More
    tenants than one look asks are asked by the next looks (`_AskedTenants`).

    Args:
        which: SQL: which waits `w`; the condition of an index by tenant.
        by_time: SQL: the same, for what is read by time.
        also: SQL: further waits.
    """
    return f"""
WITH RECURSIVE oldest AS MATERIALIZED (
    SELECT w.run_id, w.task_run_id, w.tenant_id, w.due_at FROM waits AS w
    WHERE w.due_at <= now() AND {by_time} ORDER BY w.due_at LIMIT :batch
), tenants AS (
    (SELECT w.tenant_id, w.due_at FROM waits AS w
     WHERE w.tenant_id > :after AND {which} AND (SELECT count(*) FROM oldest) >= :batch
     ORDER BY w.tenant_id, w.due_at LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.due_at FROM tenants AS t CROSS JOIN LATERAL (
        SELECT w.tenant_id, w.due_at FROM waits AS w WHERE w.tenant_id > t.tenant_id AND {which}
        ORDER BY w.tenant_id, w.due_at LIMIT 1) AS n
), asked AS MATERIALIZED (
    SELECT t.tenant_id, t.due_at FROM tenants AS t LIMIT :tenants
), shares AS (
    SELECT d.* FROM asked AS t CROSS JOIN LATERAL (
        SELECT w.run_id, w.task_run_id, w.tenant_id, w.due_at FROM waits AS w
        WHERE w.tenant_id = t.tenant_id AND w.due_at <= now() AND {which} ORDER BY w.due_at
        LIMIT (SELECT greatest(1, CAST(:batch AS bigint) / nullif(count(*), 0)) FROM asked AS a
               WHERE a.due_at <= now())) AS d
    WHERE t.due_at <= now()
)
SELECT o.run_id, o.task_run_id, (SELECT max(a.tenant_id) FROM asked AS a) AS last_asked,
    (SELECT count(*) FROM asked) AS asked
FROM (SELECT w.run_id, w.task_run_id, w.due_at,
          row_number() OVER (PARTITION BY w.tenant_id ORDER BY w.due_at, w.task_run_id) AS turn
      FROM (SELECT * FROM oldest UNION SELECT * FROM shares{also}) AS w) AS o
ORDER BY o.turn, o.due_at LIMIT :batch
"""


_DUE = _due(_PLAIN, _ANYBODYS, f" UNION ({_PAIRS} LIMIT :batch)")
_STORED_DUE = _due(_STORED, _STORED)


class _AskedTenants:
    """The tenants that this process has asked for due waits: those up to `after`."""

    after = ""


class _AskedForStored(_AskedTenants):
    """The same for waits that need storage."""


def run_once(database: Database) -> int:
    """Look at what is due, for MAX_SECONDS at most. Returns how many waits ended.

    In maintenance nothing is looked at: timers wake late, oldest first.

    Raises:
        PartlyFailed: some runs could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    return _run(database, leases.WAITS, lambda _: _look(database))


def run_stored(database: Database, values: Values) -> int:
    """As `run_once`, at those waits that need something of storage; it may wait for that."""
    return _run(database, leases.STORED_WAITS, lambda lease: _look_at_stored(database, values, lease))


def until_through(look: Callable[[], int]) -> None:
    """Look at what is due while that is more than one look takes. What becomes due meanwhile is seen by the
    next turn, together with what follows it until then: so children that end one by one are looked at
    together.

    Args:
        look: `run_once` or `run_stored`.
    """
    while isinstance(ended := look(), Unfinished) and ended:
        pass


def _run(database: Database, name: str, work: Callable[[Lease], int]) -> int:
    with database.statements() as tx:
        if deployment_mode.mode(tx) == deployment_mode.MAINTENANCE:
            return 0
    lease = leases.take(database, name, LEASE, leases.this_thread())
    if lease is None:
        return 0
    try:
        return work(lease)
    finally:
        leases.end(database, lease)


def _look(database: Database) -> int:
    keys = _next(database, _DUE, database.caches.own(_AskedTenants))
    done = look_at_all(database, keys)
    return Unfinished(done) if len(keys) == BATCH else done


def _look_at_stored(database: Database, values: Values, lease: Lease) -> int:
    until, isolation, ended = time.monotonic() + MAX_SECONDS, Isolation(database), 0
    keys = _next(database, _STORED_DUE, database.caches.own(_AskedForStored))
    for first in range(0, len(keys), FETCHED_TOGETHER):
        if time.monotonic() >= until or not (lease.is_fresh or leases.renew(database, lease)):
            return Unfinished(isolation.finish(ended))
        some = sorted(keys[first : first + FETCHED_TOGETHER])
        ended += isolation.run_together(some, lambda some: look(database, values, some), "wait")
    return isolation.finish(ended)


def _next(database: Database, statement: str, walk: _AskedTenants) -> list[Key]:
    with database.statements() as tx:
        parameters = {"batch": BATCH, "after": walk.after, "tenants": TENANTS}
        rows: list[Any] = list(tx.execute(statement, parameters))
    walk.after = rows[0].last_asked if rows and rows[0].asked == TENANTS else ""
    return [(row.run_id, row.task_run_id) for row in rows]


def look_at_all(database: Database, keys: Sequence[Key]) -> int:
    """Look at these waits, for MAX_SECONDS at most; many runs share a transaction. Returns how many ended.

    Raises:
        PartlyFailed: some runs could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    until, isolation, ended = time.monotonic() + MAX_SECONDS, Isolation(database), 0
    for together in _together(keys):
        if time.monotonic() >= until:
            return Unfinished(isolation.finish(ended))
        ended += isolation.run_together(together, lambda some: look_without_storage(database, some), "wait")
    return isolation.finish(ended)


def _together(keys: Sequence[Key]) -> Iterator[list[Key]]:
    """The waits of RUNS_PER_TRANSACTION runs at a time, the first ones first, each time in their order."""
    runs = [list(of_run) for _, of_run in groupby(keys, lambda key: key[0])]
    for start in range(0, len(runs), RUNS_PER_TRANSACTION):
        yield sorted(key for of_run in runs[start : start + RUNS_PER_TRANSACTION] for key in of_run)
