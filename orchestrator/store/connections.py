"""Lends connections to PostgreSQL, replaces dead ones and translates their errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2
import psycopg2.errors
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from pipeweave.errors import Busy, Deadlocked, PipeWeaveError, ReadOnly, SchemaOutdated, Unavailable
from pipeweave.orchestrator.store.hosts import Hosts
from pipeweave.orchestrator.store.idle_pools import IDLE_POOLS
from pipeweave.orchestrator.store.pool import Pool
from pipeweave.orchestrator.store.pooler import Pooler
from pipeweave.orchestrator.store.server_clock import ServerClock
from pipeweave.orchestrator.store.session_settings import APPLICATION_NAME, connect_arguments
from pipeweave.orchestrator.store.silence import WATCH, WatchedConnection
from pipeweave.orchestrator.store.timeline import TIMELINE, timeline_of

# SQLSTATEs after which the same transaction is simply repeated: a deadlock, a serialization failure.
_START_OVER = ("40P01", "40001")
# SQLSTATEs of a session that the server ended because its transaction took too long.
_ENDED = ("25P03", "25P04")
# SQLSTATEs of a statement that waited too long for a lock, or took too long.
_TOO_SLOW = ("55P03", "57014")

# How long a request waits for a connection that others use.
POOL_TIMEOUT_S = 10
# A pooled connection that was unused for longer (s) is tested before it is lent. Were this a second, the
# heartbeats and ticks, which come each second, would test theirs nearly each time.
IDLE_S = 1.25
_CLOCK = f"SELECT clock_timestamp(), {TIMELINE}"


@dataclass(frozen=True, slots=True)
class PoolUse:
    """How many connections of a pool are in use, how many are idle, and how many there are at most."""

    in_use: int
    idle: int
    most: int


class Connections:
    """A pool of connections to one database, each used by one thread at a time. A pool that is idle for long
    is emptied.

    A statement is part of a transaction only after a BEGIN.

    Args:
        url: `postgresql://user:password@host:port/name`; several hosts as `host:port,host:port`.
        size: connections at most; 0 opens one for every use (for processes that fork).
        settings: of the server for these sessions.
        clock: read over a connection that is lent, when it is stale.
        name: of the sessions.
    """

    def __init__(
        self,
        url: str,
        size: int,
        settings: Mapping[str, object],
        clock: ServerClock,
        name: str = APPLICATION_NAME,
    ) -> None:
        hosts = Hosts(url)
        self._timeline = timeline_of(url)
        pooler = Pooler(connect_arguments(settings, name, url), settings, hosts, self._timeline)
        self._pool = Pool(pooler.connect, size, POOL_TIMEOUT_S)
        self._is_read_only = "default_transaction_read_only" in settings
        self._broke_at = 0.0
        self._outdated_at = 0.0
        self._clock = clock
        # Guards the three below: who is counted as a user has a connection, or is about to take one.
        self._lock = threading.Lock()
        self._users = 0
        self._idle_since = 0.0
        self._is_watched = size == 0

    @contextmanager
    def lend(self) -> Iterator[WatchedConnection]:
        """Lend a connection for the block.

        Raises:
            Unavailable: no connection is free in time, or PostgreSQL cannot be reached or went away.
            Busy: a statement waited too long for a lock, or took longer than its session allows.
            ReadOnly: PostgreSQL takes no writes.
            Deadlocked: PostgreSQL rolled the block back; it can be repeated.
            SchemaOutdated: a table or column does not exist.
            psycopg2.Error: PostgreSQL refused a statement; `pgcode` says why.
        """
        with self._lock:
            self._users += 1
        try:
            lent_at = time.monotonic()
            connection = self._take()
            try:
                yield connection
            except psycopg2.errors.ReadOnlySqlTransaction:
                # The server may take writes again, or another server may: old sessions do not learn of it.
                self._outdated_at = time.monotonic()
                raise
            finally:
                self._give_back(connection, lent_at)
        except psycopg2.Error as error:
            problem = self._problem(error)
            if problem is None:
                raise
            raise problem from error
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            self._idle_since = time.monotonic()
            is_watched, self._is_watched = self._is_watched, True
        if not is_watched:
            IDLE_POOLS.watch(self)

    def close_if_idle(self, seconds: float) -> bool:
        """Close every connection if none was used for so long (s); say whether they are closed."""
        with self._lock:
            if self._users or time.monotonic() - self._idle_since < seconds:
                return False
            self._pool.close()
            self._is_watched = False
            return True

    def use(self) -> PoolUse | None:
        """What of the pool is in use; None if it keeps no connections."""
        pool = self._pool
        return PoolUse(pool.in_use, pool.idle, pool.size) if pool.size else None

    def close(self) -> None:
        """Close every connection that is not in use."""
        self._pool.close()

    def _take(self) -> WatchedConnection:
        connection = self._pool.take()
        while not self._lives(connection):
            self._drop(connection)
            connection = self._pool.take()
        return connection

    def _lives(self, connection: WatchedConnection) -> bool:
        used = connection.used_at
        # What is most likely silent, too, is not waited for a second time.
        if used is not None and used <= max(WATCH.found_at, self._outdated_at):
            return False
        # A connection used a moment ago is not tested, unless another connection broke since.
        is_fresh = used is None or (time.monotonic() - used <= IDLE_S and used > self._broke_at)
        if is_fresh and not self._clock.is_stale:
            return True
        try:
            self._read_clock(connection)
        except psycopg2.Error:
            if used is None:
                self._drop(connection)
                raise
            return False
        return True

    def _read_clock(self, connection: WatchedConnection) -> None:
        """Ask a question that any server answers: so the connection lives, and PostgreSQL's time is known."""
        cursor = connection.cursor()
        asked = self._clock.steady()
        cursor.execute(_CLOCK)
        said, timeline = cursor.fetchone() or (None, None)
        self._clock.record(said, asked)
        self._timeline.record(timeline)

    def _give_back(self, connection: WatchedConnection, lent_at: float) -> None:
        # The session is gone, or still in a transaction because its COMMIT or ROLLBACK failed.
        is_usable = connection.get_transaction_status() == TRANSACTION_STATUS_IDLE
        if not is_usable or lent_at <= self._outdated_at:
            self._drop(connection)
        else:
            connection.used_at = time.monotonic()
            self._pool.give_back(connection)

    def _drop(self, connection: WatchedConnection) -> None:
        self._broke_at = time.monotonic()
        self._pool.drop(connection)

    def _problem(self, error: psycopg2.Error) -> PipeWeaveError | None:
        """Our error for a lost connection, a server without writes or a deadlock; None for an error of the
        statement itself.
        """
        if error.pgcode in _START_OVER:
            return Deadlocked("two transactions waited for each other")
        if error.pgcode in _TOO_SLOW:
            return Busy("a lock was held for too long, or a statement took too long", hint="try again")
        if isinstance(error, psycopg2.errors.ReadOnlySqlTransaction) and not self._is_read_only:
            return ReadOnly(
                "PostgreSQL takes no writes", hint="check whether DATABASE_URL leads to the primary"
            )
        if isinstance(error, psycopg2.errors.UndefinedTable | psycopg2.errors.UndefinedColumn):
            missing = str(error.diag.message_primary)
            return SchemaOutdated(
                f"the database lacks a part of the schema: {missing}", hint="run `pipeweave db migrate`"
            )
        is_ended = error.pgcode in _ENDED
        if not is_ended and not isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
            return None
        # The driver's text names host, port and user, never the password.
        reason = (str(error).strip().splitlines() or ["no connection"])[0]
        return Unavailable(f"PostgreSQL cannot be used: {reason}", hint="check DATABASE_URL and the server")
