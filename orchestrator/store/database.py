"""Runs transactions on PostgreSQL, with actions after the commit, and reads from a separate pool.

Statements are SQL text with named parameters (`:name`); JSON goes in through `to_json` and comes out as
Python values. Messages are sent after the commit, never before it.
"""

from __future__ import annotations

import copy
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import orjson
import psycopg2

from pipeweave import ids
from pipeweave.errors import Deadlocked
from pipeweave.orchestrator.domain.facts import Fact
from pipeweave.orchestrator.domain.outbox import Outgoing
from pipeweave.orchestrator.store.cache import Cache, Caches, CacheSpec, K, V
from pipeweave.orchestrator.store.connections import Connections, PoolUse
from pipeweave.orchestrator.store.rows import Result
from pipeweave.orchestrator.store.server_clock import ServerClock
from pipeweave.orchestrator.store.session_settings import (
    APPLICATION_NAME,
    DEADLINES,
    FOLLOWS,
    IMPATIENT,
    READS,
    VERBS,
)
from pipeweave.orchestrator.store.silence import WatchedConnection
from pipeweave.orchestrator.store.statements import statement as sql
from pipeweave.orchestrator.store.timeline import timeline_of

log = logging.getLogger(__name__)

R = TypeVar("R")

DEADLOCK_TRIES = 5
# Of transactions that follow each other's commits, what may come later is left to those who look at what is
# due: the stack of a thread is finite, and so is the patience of who asked for the first one.
MOST_NESTED = 30
_nesting = threading.local()

# Connections beside the two pools: for the health check, and for the chores of a tick.
RESERVED = TICKING = 1
# At most so many, for chores that run beside a tick: one for each.
BESIDE = 23
# Beside them, while somebody follows what is new.
FOLLOWING = 1


class Transaction:
    """An open transaction: its statements, its time, its outbox and its actions after the commit.

    Attributes:
        now: when it began, by PostgreSQL's clock.
    """

    def __init__(self, database: Database, connection: WatchedConnection, *, is_one: bool = True) -> None:
        self._database = database
        self._connection = connection
        self._opening = ""
        self._is_open = False
        if is_one:
            self.hold()
        self.now = database.now()
        self.outbox: list[Outgoing] = []
        self._after: list[Callable[[], None]] = []

    def hold(self) -> None:
        """Commit the next statement and all after it together, as `transaction()` always does."""
        if not self._is_open:
            # BEGIN travels with the next statement: that saves a round trip.
            self._opening = "BEGIN; "

    @property
    def connection(self) -> WatchedConnection:
        """The driver's connection, for tools that send statements of their own; the transaction has begun."""
        if self._opening:
            self.execute("SELECT 1")
        return self._connection

    @property
    def server(self) -> str:
        """Which server of DATABASE_URL this is: `host:port`."""
        info = self._connection.info
        return f"{info.host or 'local'}:{info.port}"

    def cache(self, spec: CacheSpec[K, V]) -> Cache[K, V]:
        """The cache that a spec declares, of this database in this process."""
        return self._database.caches.of(spec)

    def cache_after_commit(self, spec: CacheSpec[K, V], key: K, value: V) -> None:
        """Cache a value that depends on the writes of this transaction, after the commit."""
        cache = self.cache(spec)
        self._after.append(lambda: cache.put(key, value))

    def execute(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, lock: str | None = None
    ) -> Result:
        """Run one statement.

        Args:
            lock: a statement that locks rows first, in the same round trip and, outside a transaction, in the
                same implicit one. The rows stay locked until the commit, and the main statement sees what
                their last holders committed. Its parameters are among `parameters`.

        Raises:
            psycopg2.Error: PostgreSQL refused the statement; the transaction can only be rolled back.
        """
        opening, self._opening = self._opening, ""
        self._is_open = self._is_open or bool(opening)
        before = None if lock is None else sql(lock)
        return sql(statement).run(self._connection, parameters or {}, opening, before)

    def commit(self) -> None:
        """Commit. Called once by `Database.transaction`.

        Raises:
            RuntimeError: a statement had failed, and its error was swallowed.
        """
        if self._is_open:
            answer = self._end("COMMIT")
            # PostgreSQL answers ROLLBACK, without an error, when a statement had failed.
            if answer != "COMMIT":
                raise RuntimeError("the transaction had failed before its commit")

    def roll_back(self) -> None:
        """Roll back; a connection on which that fails is not used again."""
        if self._is_open:
            # Most likely the server is gone, and the error that ended the transaction says so better.
            with suppress(psycopg2.Error):
                self._end("ROLLBACK")

    def _end(self, command: str) -> str:
        self._is_open = False
        cursor = self._connection.cursor()
        cursor.execute(command)
        return str(cursor.statusmessage)

    def catch_up(self) -> None:
        """Advance `now` after a wait for a lock, beyond the changes of its last holder."""
        self.now = max(self.now, self._database.now())

    def go_on_after(self, moment: datetime) -> None:
        """Advance `now` to a time that was read, if it is later: what two processes know of PostgreSQL's
        clock differs by a millisecond on a busy machine.
        """
        self.now = max(self.now, moment)

    def new_id(self) -> UUID:
        """A new id of this transaction's time."""
        return ids.new_id(int(self.now.timestamp() * 1000))

    def new_ids(self, count: int) -> list[UUID]:
        """New ids of this transaction's time, each higher than the one before it."""
        return ids.new_ids(count, int(self.now.timestamp() * 1000))

    def send(self, *outgoing: Outgoing) -> None:
        """Put messages in the outbox: they leave in one batch when the transaction is durable."""
        self.outbox.extend(outgoing)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run an action after the commit. Its error is logged; the tick does what is left."""
        self._after.append(action)

    def announce(self, fact: Fact) -> None:
        """Announce a fact: after the commit, each verb that `Database.react` gives for it runs in its own
        transaction. The error of a verb is logged.
        """
        for verb in self._database.react(fact):
            self.afterwards(verb)

    def afterwards(self, verb: Verb) -> None:
        """Run a verb in a transaction of its own after the commit. Its error is logged."""

        def follow() -> None:
            with _nested():
                self._database.run(verb)

        self.after_commit(follow)

    @property
    def is_deep(self) -> bool:
        """Whether it follows a transaction that follows another one, and so on, MOST_NESTED times."""
        return getattr(_nesting, "depth", 0) >= MOST_NESTED

    def run_after_commit(self) -> None:
        """Run the actions. Called once by `Database.transaction`, and by tests that commit on their own."""
        actions, self._after = self._after, []
        for action in actions:
            _attempt(action)


class Database:
    """Connections to one database.

    Args:
        url: `postgresql://user:password@host:port/name`.
        pool_size: connections kept open; 0 opens one per transaction (for processes that fork).
        sender: takes the outbox of each committed transaction; without it, messages are left to the tick.
        react: gives the verbs that follow from a fact; without it, the verbs are left to the tick.
        now: a clock for tests; PostgreSQL's own by default.
        has_deadlines: for a process whose callers wait: a statement that takes too long, or waits too long
            for a lock, is given up (DEADLINES).
        session_name: of the sessions for verbs, in `pg_stat_activity`: a process whose sessions others may
            have to end has one of its own.

    Attributes:
        timeline: what this process knows of that of the server.

    Raises:
        Busy: with deadlines, and from `reading()`: a statement took too long.
        Unavailable: from `transaction()` and `reading()`, when PostgreSQL cannot be reached.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 5,
        sender: Callable[[list[Outgoing]], None] | None = None,
        react: Callable[[Fact], Iterable[Verb]] | None = None,
        now: Callable[[], datetime] | None = None,
        has_deadlines: bool = False,
        session_name: str | None = None,
    ) -> None:
        self.url = url
        self.session_name = session_name or APPLICATION_NAME
        self.sender = sender
        self.react = react or (lambda fact: ())
        self._clock = ServerClock()
        self.timeline = timeline_of(url)
        self.now = now or self._server_now
        verbs = {**VERBS, **DEADLINES} if has_deadlines else VERBS
        self.connections = Connections(url, pool_size, verbs, self._clock, self.session_name)
        self._impatient = Connections(url, min(TICKING, pool_size), IMPATIENT, self._clock, self.session_name)
        self._beside = Connections(url, BESIDE * min(1, pool_size), IMPATIENT, self._clock, self.session_name)
        self._reader = Connections(url, max(1, pool_size // 2), READS, self._clock)
        self._follower = Connections(url, min(FOLLOWING, pool_size), FOLLOWS, self._clock)
        self._reserved = Connections(url, min(RESERVED, pool_size), READS, self._clock)
        self.caches = Caches(self.timeline)

    def _server_now(self) -> datetime:
        if not self._clock.is_known:
            # A connection that is lent brings the time with it.
            with self.connections.lend():
                pass
        return self._clock.now()

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commit after the block, then run its after-commit actions; roll back when the block raises."""
        return self._begin(is_one=True)

    def statements(self) -> AbstractContextManager[Transaction]:
        """Run statements that each commit by themselves, until `hold` begins a transaction.

        For verbs that are often a read and one write: they save BEGIN and COMMIT.
        """
        return self._begin(is_one=False)

    @contextmanager
    def _begin(self, *, is_one: bool) -> Iterator[Transaction]:
        with self.connections.lend() as connection:
            tx = Transaction(self, connection, is_one=is_one)
            try:
                yield tx
                tx.commit()
            except BaseException:
                tx.roll_back()
                raise
        # The messages leave first: a follow-up transaction may take long, or be the first of many.
        if tx.outbox and self.sender is not None:
            _attempt(functools.partial(self.sender, tx.outbox))
        tx.run_after_commit()

    def impatient(self) -> Database:
        """This database over a connection whose statements wait for a lock LOCK_TIMEOUT_MS at most, and then
        raise Busy. For the tick: a row that nobody lets go must not keep other rows waiting.
        """
        other = copy.copy(self)
        other.connections = self._impatient
        return other

    def beside(self) -> Database:
        """This database as `impatient`, over connections of its own: for chores that run beside the tick, and
        may hold one while they wait for a store.
        """
        other = copy.copy(self)
        other.connections = self._beside
        return other

    def run(self, work: Callable[[Transaction], R], *, is_one: bool = True) -> R:
        """Do `work` in a transaction; repeat it when PostgreSQL rolled it back to end a deadlock.

        A cancel locks all rows of a run while its steps complete, so the two may deadlock.

        Args:
            is_one: False begins with `statements` instead of `transaction`.
        """
        begin = self.transaction if is_one else self.statements
        for _ in range(DEADLOCK_TRIES - 1):
            try:
                with begin() as tx:
                    return work(tx)
            except Deadlocked:
                log.info("transaction.again")
        with begin() as tx:
            return work(tx)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Run statements that only read, on a pool of their own, each cancelled after READ_TIMEOUT_MS."""
        with self._read_from(self._reader) as tx:
            yield tx

    @contextmanager
    def reserved(self) -> Iterator[Transaction]:
        """As `reading`, on a connection that neither verbs nor lists use: for a lock that is held
        beside other statements, and for the health check, which must not wait for a connection.
        """
        with self._read_from(self._reserved) as tx:
            yield tx

    @contextmanager
    def following(self) -> Iterator[Transaction]:
        """As `reading`, on a connection for those who ask many times a second what is new."""
        with self._read_from(self._follower) as tx:
            yield tx

    @contextmanager
    def _read_from(self, connections: Connections) -> Iterator[Transaction]:
        with connections.lend() as connection:
            tx = Transaction(self, connection, is_one=False)
            try:
                yield tx
                # It wrote nothing: what it caches, others have committed.
                tx.run_after_commit()
            finally:
                tx.roll_back()

    def pools(self) -> dict[str, PoolUse]:
        """How many connections of each pool are in use. Pools without a size are left out."""
        named = {
            "verbs": self.connections,
            "reads": self._reader,
            "stream": self._follower,
            "reserved": self._reserved,
            "tick": self._impatient,
            "chores": self._beside,
        }
        return {name: use for name, each in named.items() if (use := each.use()) is not None}

    def dispose(self) -> None:
        """Close every connection, and what belongs to this database alone."""
        self.caches.close()
        self.connections.close()
        self._reader.close()
        self._follower.close()
        self._reserved.close()
        self._impatient.close()
        self._beside.close()


@contextmanager
def _nested() -> Iterator[None]:
    _nesting.depth = getattr(_nesting, "depth", 0) + 1
    try:
        yield
    finally:
        _nesting.depth -= 1


def _attempt(action: Callable[[], object]) -> None:
    """Run an action after a commit. Its error is logged: the rows are safe by then."""
    try:
        action()
    except Exception:
        log.exception("after_commit.failed")


# A function that runs in a transaction of its own.
Verb = Callable[[Transaction], object]


def to_json(value: Any) -> str | None:
    """A JSON parameter for `CAST(:name AS jsonb)`; None stays NULL."""
    return None if value is None else orjson.dumps(value).decode()
