"""Reads the events of all runs as they become visible: each exactly once, none waiting for other commits.

    place = feed.latest(tx)
    while True:
        batch = feed.read_after(tx, place, types=("run.completed",), limit=500)
        ...                                # batch.events, each a FeedEvent, in the order of their numbers
        place = batch.place                # batch.more: read on at once

A reader that was away goes on where it was: `place_text.write` makes a text of the place, and `resume` reads
it, or says that events were dropped since. Who keeps a place in this database has a row: see consumers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave.errors import CursorExpired
from pipeweave.orchestrator.feed import place_text
from pipeweave.orchestrator.feed.place import Place, SeenTransactions, Snapshot, lowest, texts
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.timeline import TIMELINE

# Events of one batch, unless the caller asks for fewer.
BATCH = 1_000


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event with what it belongs to.

    Args:
        seq: its number. Events of one run that were written one after the other have ascending numbers.
        at: when it happened.
        type: `run.completed`, for example.
        step_id: of its task run; None for an event of the run, or of many task runs.
        pipeline_id: None: a standalone task.
        root_run_id: the first run above its run; None for a run without a parent.
    """

    seq: int
    at: datetime
    type: str
    tenant: str
    pipeline_id: str | None
    run_id: UUID
    task_run_id: UUID | None
    step_id: str | None
    attempt: int | None
    data: dict[str, Any]
    root_run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Events that were new, and where the reader goes on.

    Args:
        before: where the reader was.
        place: where it is after the last of the events.
        more: whether there may be more events already, beyond as many as were asked for.
    """

    events: Sequence[FeedEvent]
    before: Place
    place: Place
    more: bool

    def place_after(self, index: int) -> Place:
        """Where a reader is that has seen this event, and those before it; -1: none of them."""
        if index < 0:
            return self.before
        if index == len(self.events) - 1:
            return self.place
        next = self.place.next or self.place.seen
        return Place(self.before.seen, next, self.events[index].seq, self.place.at)


_LATEST = """
SELECT CAST(pg_current_snapshot() AS text) AS snapshot,
       CAST(extract(epoch FROM statement_timestamp()) AS bigint) AS at,
       CAST((SELECT max(e.txid) FROM events AS e
             WHERE e.txid < pg_snapshot_xmax(pg_current_snapshot())) AS text) AS last
"""


def latest(tx: Transaction) -> Place:
    """The place after all events that are visible now."""
    row = tx.execute(_LATEST).one()
    last = int(row.last or 0)
    return Place(SeenTransactions(0).up_to(last, Snapshot.parse(row.snapshot)), at=row.at)


_MARK = "SELECT CAST(pg_current_snapshot() AS text)"


def mark(tx: Transaction) -> str:
    """A text that stays equal as long as no transaction ends that has written anything: nothing is new then.
    It costs a fraction of `read_after`.
    """
    return str(tx.execute(_MARK).scalar_one())


_IDENTITY = f"""
SELECT CAST(c.system_identifier AS text) || '/' || CAST(d.oid AS text) || '/'
       || {TIMELINE}
FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database()
"""


def identity(tx: Transaction) -> str:
    """Which database this is, for who keeps a place outside of it: after a restore, or when a replica has
    taken over, another one. The numbers of transactions may then mean others.
    """
    return str(tx.execute(_IDENTITY).scalar_one())


def written_by(row: str) -> str:
    """SQL: the number of the transaction that wrote a row. The numbers in a row's header have 32 bits; the
    high bits are those of the present.

    Args:
        row: the row's name in the statement.
    """
    end = "CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)"
    return f"({end} - (({end} - CAST(CAST({row}.xmin AS text) AS bigint)) & 4294967295))"


# A month that was dropped is missed by who has not read the last transaction that wrote an event of it.
# Earlier versions did not note that one: then by who was there before the month had ended. Times of places
# are whole seconds.
MISSED = """
SELECT d.month FROM dropped_months AS d
WHERE d.dropped_at >= to_timestamp(:at) - interval '1 s'
  AND CASE WHEN d.last_txid IS NULL
      THEN to_timestamp(:at) < (CAST(d.month || '-01' AS timestamp) + interval '1 month') AT TIME ZONE 'UTC'
      ELSE d.last_txid >= CAST(CAST(:lowest AS text) AS xid8) END
ORDER BY d.month
"""
"""SQL: the months that were dropped before a reader had read all their events. It was at its place `at` (s
since 1970, by PostgreSQL's clock); `lowest`: see place.py.
"""


_IS_AHEAD = "SELECT pg_snapshot_xmax(pg_current_snapshot()) < CAST(CAST(:before AS text) AS xid8)"


def resume(tx: Transaction, text: str, tenant: str = "", *, field: str = "cursor") -> Place:
    """The place that a text of `place_text.write` tells, if all that came after it can still be read.

    Args:
        field: the name of the text in an error: that of a parameter or header.

    Raises:
        InvalidInput: it is no text of this tenant's.
        CursorExpired: it is another database's, or history was dropped that came after it.
    """
    place = place_text.read(text, identity(tx), tenant, field=field)
    seen = place.next or place.seen
    if tx.execute(_IS_AHEAD, {"before": str(seen.before)}).scalar_one():
        raise CursorExpired("the cursor was given out before this database was restored")
    missed = tx.execute(MISSED, {"at": place.at, "lowest": str(lowest(place.seen))}).scalars()
    if months := [str(each) for each in missed]:
        raise CursorExpired(f"history that came after the cursor was dropped: {', '.join(months)}")
    return place


# Events came with the numbers of another server's transactions when the database was restored from a dump.
# Theirs are higher than that of the transaction that restored them; what was written here has its own, or
# that of a savepoint, which is higher. (Numbers of transactions have 32 bits in a row's header.)
WRITTEN_HERE = """
(CAST(CAST(e.xmin AS text) AS bigint) - CAST(CAST(e.txid AS text) AS bigint)) & 4294967295 < 2147483648
"""

_COLUMNS = (
    "e.seq, e.at, e.type, e.run_id, e.task_run_id, e.attempt, e.data, e.txid, r.tenant_id, r.pipeline_id,"
    " r.root_run_id"
)

# OFFSET 0 keeps the planner from joining whole tables: the owner of each event is looked up by its key.
_EVENTS = f"""
SELECT {_COLUMNS} FROM events AS e CROSS JOIN LATERAL (
    SELECT r.tenant_id, r.pipeline_id, r.root_run_id FROM runs AS r WHERE r.id = e.run_id OFFSET 0
) AS r
WHERE {WRITTEN_HERE}
  AND (CAST(:types AS text[]) IS NULL OR e.type = ANY(:types))
  AND (CAST(:run_id AS uuid) IS NULL OR e.run_id = :run_id)
  AND (CAST(:root AS uuid) IS NULL OR e.run_id = :root OR r.root_run_id = :root)
  AND (CAST(:tenant AS text) IS NULL OR r.tenant_id = :tenant)
  AND (CAST(:pipeline AS text) IS NULL OR r.pipeline_id = :pipeline)
"""

_SHOWN = """
p.seq, p.at, p.type, p.run_id, p.task_run_id, p.attempt, p.data, CAST(p.txid AS text) AS txid,
p.tenant_id, p.pipeline_id, p.root_run_id, t.step_id
"""

_STEP = """
LEFT JOIN LATERAL (
    SELECT t.step_id FROM task_runs AS t WHERE t.run_id = p.run_id AND t.id = p.task_run_id OFFSET 0
) AS t ON true
"""

# What this statement sees is what its snapshot shows: of transactions that the reader has not seen,
# everything is new. Those that were open come first, as they have the lowest numbers.
_NEW = f"""
SELECT s.snapshot, s.at AS read_at, s.last, {_SHOWN}
FROM ({_LATEST}) AS s LEFT JOIN (
    SELECT * FROM (
        ({_EVENTS}
           AND e.txid = ANY(CAST(CAST(:open AS text[]) AS xid8[]))
         ORDER BY e.txid LIMIT :limit)
        UNION ALL
        ({_EVENTS}
           AND e.txid >= CAST(CAST(:before AS text) AS xid8)
           AND e.txid < pg_snapshot_xmax(pg_current_snapshot())
         ORDER BY e.txid LIMIT :limit)
    ) AS e ORDER BY e.txid LIMIT :limit
) AS p ON true {_STEP}
ORDER BY p.seq
"""

# The rest of a batch that has begun: all its transactions have ended, so it is the same however often it is
# read.
_REST = f"""
SELECT s.at AS read_at, {_SHOWN}
FROM (SELECT CAST(extract(epoch FROM statement_timestamp()) AS bigint) AS at) AS s LEFT JOIN (
    SELECT * FROM (
        ({_EVENTS}
           AND e.txid = ANY(CAST(CAST(:ended AS text[]) AS xid8[])) AND e.seq > :seq
         ORDER BY e.seq LIMIT :limit)
        UNION ALL
        ({_EVENTS}
           AND e.txid >= CAST(CAST(:before AS text) AS xid8) AND e.txid < CAST(CAST(:until AS text) AS xid8)
           AND NOT e.txid = ANY(CAST(CAST(:open AS text[]) AS xid8[])) AND e.seq > :seq
         ORDER BY e.seq LIMIT :limit)
    ) AS e ORDER BY e.seq LIMIT :limit
) AS p ON true {_STEP}
ORDER BY p.seq
"""


def read_after(
    tx: Transaction,
    place: Place,
    *,
    types: Sequence[str] | None = None,
    tenant: str | None = None,
    pipeline: str | None = None,
    run_id: UUID | None = None,
    root: UUID | None = None,
    limit: int = BATCH,
) -> Batch:
    """The events that became visible after a place, and the place after them.

    Call it outside of a transaction, or in one that is READ COMMITTED: each call must see what is new.

    Args:
        types: only events of these types; None: all. So with `tenant`, `pipeline` and `run_id`.
        root: only events of this run and of those inside of it.
        limit: at most so many events.

    Raises:
        CursorExpired: the place is in the future of this database: it is another one, or was restored.
    """
    filters = {
        "types": None if types is None else list(types),
        "tenant": tenant,
        "pipeline": pipeline,
        "run_id": run_id,
        "root": root,
    }
    if place.next is not None:
        return _rest(tx, place, place.next, filters, limit)
    rows: list[Any] = tx.execute(
        _NEW,
        {**filters, "open": texts(place.seen.open), "before": str(place.seen.before), "limit": limit + 1},
    ).all()
    snapshot, at = Snapshot.parse(rows[0].snapshot), rows[0].read_at
    if place.seen.before > snapshot.before:
        raise CursorExpired("the cursor was given out before this database was restored")
    event_rows = [each for each in rows if each.seq is not None]
    if len(event_rows) <= limit:
        seen = place.seen.up_to(max(int(rows[0].last or 0), place.seen.before - 1), snapshot)
        return Batch([_event(each) for each in event_rows], place, Place(seen, at=at), more=False)
    last = max(int(each.txid) for each in event_rows)
    whole = [each for each in event_rows if int(each.txid) < last]
    if whole:
        # Of the last transaction there may be more.
        seen = place.seen.up_to(max(int(each.txid) for each in whole), snapshot)
        return Batch([_event(each) for each in whole], place, Place(seen, at=at), more=True)
    one = Place(place.seen, place.seen.up_to(last, snapshot), -1, at)
    return _rest(tx, one, place.seen.up_to(last, snapshot), filters, limit)


def _rest(
    tx: Transaction, place: Place, next: SeenTransactions, filters: dict[str, Any], limit: int
) -> Batch:
    parameters = {
        **filters,
        "ended": texts(place.seen.ended(next)),
        "before": str(place.seen.before),
        "until": str(next.before),
        "open": texts(next.open),
        "seq": place.seq,
        "limit": limit + 1,
    }
    rows: list[Any] = tx.execute(_REST, parameters).all()
    event_rows = [each for each in rows if each.seq is not None]
    events = [_event(each) for each in event_rows[:limit]]
    if len(event_rows) <= limit:
        return Batch(events, place, Place(next, at=rows[0].read_at), more=True)
    return Batch(events, place, Place(place.seen, next, events[-1].seq, rows[0].read_at), more=True)


def _event(row: Any) -> FeedEvent:
    return FeedEvent(
        row.seq,
        row.at,
        row.type,
        row.tenant_id,
        row.pipeline_id,
        row.run_id,
        row.task_run_id,
        row.step_id,
        row.attempt,
        row.data or {},
        row.root_run_id,
    )
