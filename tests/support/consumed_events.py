"""A random history of an event log, and consumers that read it as triggers, statistics and traces do."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import ClassVar, Self, cast
from uuid import UUID

import psycopg2
from psycopg2.extensions import connection as Connection

from pipeweave.orchestrator.domain import Month
from pipeweave.orchestrator.feed import EventStretch, consumers, stretch
from pipeweave.orchestrator.retention import Policy, drop_months, partitions
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.storage import Storage
from support.aged_rows import past_run

NAMES = ("triggers", "statistics", "traces")
TYPES = ["test.event"]
SESSIONS = 5
# How far the numbers of another server's transactions are from those of this one.
FROM_HIGHER, FROM_LOWER = 1_000_000_000, -300

SEQS = f"SELECT e.seq FROM ({stretch.EVENTS}) AS e"


class Killed(Exception):
    """The process dies."""


class Programs:
    """Programs that write events in transactions of all lengths, some of them of a run of an old month."""

    def __init__(self, database: Database, chance: random.Random) -> None:
        self._chance = chance
        # The run of each event.
        self.committed: dict[int, UUID] = {}
        self.connect(database)
        self._waiting: dict[Connection, dict[int, UUID]] = defaultdict(dict)
        self._months: Iterator[Month] = (Month(2020, number) for number in range(1, 13))
        self.month = Month(2020, 1)
        self._begin_month()
        with database.transaction() as tx:
            self._run = past_run(tx, tx.now, steps=1)

    def connect(self, database: Database) -> None:
        """Write to this database from now on."""
        self._database = database
        self._sessions = [psycopg2.connect(database.url) for _ in range(SESSIONS)]

    def close(self) -> None:
        """End all programs."""
        for each in self._sessions:
            each.close()

    def move(self) -> None:
        """One program does something."""
        session = self._chance.choice(self._sessions)
        happens = self._chance.random()
        if happens < 0.6:
            self._write(session, self._chance.choice((self._run, self._run, self._old)))
        elif happens < 0.7:
            with session.cursor() as cursor:
                cursor.execute("SAVEPOINT here")
                self._write(session, self._run, is_kept=False)
                cursor.execute("ROLLBACK TO SAVEPOINT here")
        elif happens < 0.75:
            session.rollback()
            self._waiting.pop(session, None)
        else:
            self._commit(session)

    def _write(self, session: Connection, run: UUID, *, is_kept: bool = True) -> None:
        with session.cursor() as cursor:
            cursor.execute(
                "INSERT INTO events (run_id, at, type) VALUES (%s, now(), %s) RETURNING seq",
                (str(run), TYPES[0]),
            )
            [(seq,)] = cursor.fetchall()
        if is_kept:
            self._waiting[session][seq] = run

    def _commit(self, session: Connection) -> None:
        session.commit()
        self.committed |= self._waiting.pop(session, {})

    def commit_all(self) -> None:
        """Nothing is open any more."""
        for each in self._sessions:
            self._commit(each)

    def drop_month(self) -> tuple[Month, set[int]]:
        """Retention drops the old month, and the next one begins; the month, and its events."""
        self.commit_all()
        policy = Policy(timedelta(days=365), is_archived=False)
        [dropped] = drop_months.run_once(self._database, cast("Storage", None), policy)
        assert (dropped.month, dropped.outcome) == (self.month, drop_months.MonthOutcome.DROPPED)
        events = {seq for seq, run in self.committed.items() if run == self._old}
        month = self.month
        self._begin_month()
        return month, events

    def _begin_month(self) -> None:
        self.month = next(self._months)
        partitions.ensure_month(self._database, self.month)
        with self._database.transaction() as tx:
            self._old = past_run(tx, self.month.start + timedelta(days=10), steps=1)

    def restore(self, distance: int) -> None:
        """The database comes from a dump of another server, whose transactions had other numbers."""
        self.commit_all()
        other = f"CAST(CAST(CAST(CAST({{}} AS text) AS bigint) + {distance} AS text) AS xid8)"
        opened = f"ARRAY(SELECT {other.format('o')} FROM unnest(open) AS o)"
        with self._database.transaction() as tx:
            tx.execute(f"UPDATE events SET txid = {other.format('txid')}")
            tx.execute(f"UPDATE dropped_months SET last_txid = {other.format('last_txid')}")
            before = other.format("before")
            tx.execute(f"UPDATE feed_consumers SET server = 'other', before = {before}, open = {opened}")


class Consumer:
    """A consumer of events, in several processes."""

    names: ClassVar[tuple[str, ...]] = NAMES

    def __init__(self, name: str, database: Database, chance: random.Random) -> None:
        self.name, self.database, self._chance = name, database, chance
        # How often it consumed an event.
        self.consumed: Counter[int] = Counter()
        # The months that its row called missed.
        self.missed: set[str] = set()

    def consume(self, *, may_die: bool = True) -> bool:
        """One process consumes one batch, or dies; whether there may be more."""
        more = False
        with suppress(Killed):
            if self.name == "traces":
                more = self._send(may_die)
            else:
                more = self.database.run(lambda tx: self._consume(tx, may_die))
        with self.database.reading() as tx:
            said = "SELECT missed_months FROM feed_consumers WHERE name = :name"
            self.missed |= set(tx.execute(said, {"name": self.name}).scalar_one())
        return more

    def _consume(self, tx: Transaction, may_die: bool) -> bool:
        held = consumers.lock(tx, self.name)
        assert held is not None
        with self.database.transaction() as other:
            assert consumers.lock(other, self.name) is None
        span = stretch.ahead(tx, held.seen, limit=self._chance.randrange(1, 20))
        seqs = self._seqs(tx, span)
        self._live(may_die)
        assert consumers.move(tx, held, span)
        self._live(may_die)
        tx.after_commit(lambda: self.consumed.update(seqs))
        return span.more

    def _send(self, may_die: bool) -> bool:
        with self.database.reading() as tx:
            held = consumers.read(tx, self.name)
            assert held is not None
            span = stretch.ahead(tx, held.seen, limit=self._chance.randrange(1, 20))
            seqs = self._seqs(tx, span)
        self._live(may_die)
        # Another process does the same at the same time.
        if may_die and self._chance.random() < 0.2:
            self._send(may_die=False)
        with self.database.statements() as tx:
            if not consumers.move(tx, held, span):
                return True
        self.consumed.update(seqs)
        return span.more

    def _seqs(self, tx: Transaction, span: EventStretch) -> list[int]:
        """The events of a span, as statistics and traces read it, or as triggers do."""
        if self.name != "triggers":
            return list(tx.execute(SEQS, {**span.parameters, "types": TYPES}).scalars())
        read = [] if span.is_empty else stretch.events(tx, span, types=TYPES, limit=3)
        return [each.seq for events in read for each in events]

    def _live(self, may_die: bool) -> None:
        if may_die and self._chance.random() < 0.1:
            raise Killed


class History:
    """What programs write and consumers read, in one database."""

    def __init__(self, database: Database, seed: int, *kinds: type[Consumer]) -> None:
        self.chance = random.Random(seed)
        with database.transaction() as tx:
            consumers.begin(tx, "traces", timedelta(hours=24))
        self.programs = Programs(database, self.chance)
        self.consumers = [
            kind(name, database, self.chance) for kind in (Consumer, *kinds) for name in kind.names
        ]
        # Events that a consumer had not read when they went: its name, and the number of each.
        self.gone: dict[str, set[int]] = {name: set() for name in NAMES}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.programs.close()

    def go_on(self, steps: int, *, drops: bool = True) -> None:
        """Programs write, consumers read and die, and months are dropped."""
        for _ in range(steps):
            happens = self.chance.random()
            if happens < 0.8:
                self.programs.move()
            elif happens < 0.99:
                self.chance.choice(self.consumers).consume()
            elif drops:
                self.drop_month()

    def drop_month(self) -> None:
        """Retention drops a month: who had not read all of it says so."""
        month, events = self.programs.drop_month()
        for each in self.consumers:
            unread = events - set(each.consumed) - self.gone[each.name]
            self.gone[each.name] |= unread
            while each.consume(may_die=False):
                pass
            assert not unread or str(month) in each.missed

    def restore(self, distance: int) -> None:
        """The database is restored. Events with higher numbers than those here cannot be read."""
        self.programs.restore(distance)
        for each in self.consumers:
            if distance > 0:
                self.gone[each.name] |= set(self.programs.committed) - set(each.consumed)

    def move_to(self, database: Database) -> None:
        """Go on in another database."""
        self.programs.close()
        self.programs.connect(database)
        for each in self.consumers:
            each.database = database

    def check(self) -> None:
        """All that is still there was consumed once, by each consumer."""
        self.programs.commit_all()
        for each in self.consumers:
            while each.consume(may_die=False):
                pass
        for name in NAMES:
            consumed = sum((each.consumed for each in self.consumers if each.name == name), Counter[int]())
            assert set(consumed.values()) <= {1}
            assert set(consumed) == set(self.programs.committed) - self.gone[name]
