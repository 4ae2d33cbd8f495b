"""Keeps connections open for the threads of a process that use them one after the other.

The pool knows nothing of what a connection is for. Whether one that is taken still lives, and whether one
that is given back is of further use, is for its user to say (`connections.py`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.store.silence import WatchedConnection


class Pool:
    """The connections to one database with the same settings.

    Args:
        connect: opens a connection.
        size: connections at most, used and unused together; 0 opens one for every use and keeps none.
        timeout_s: how long to wait for a connection that others use.
    """

    def __init__(self, connect: Callable[[], WatchedConnection], size: int, timeout_s: float) -> None:
        self.size = size
        self._connect = connect
        self._timeout_s = timeout_s
        self.begin_anew()
        _POOLS.add(self)

    def begin_anew(self) -> None:
        """Forget the connections: they are those of the process that this one was forked from."""
        # The lock alone costs no call; the condition is for those who have to wait.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._idle: deque[WatchedConnection] = deque()
        self._used: set[WatchedConnection] = set()
        # Places of those that are being opened, which takes a while.
        self._coming = 0

    @property
    def in_use(self) -> int:
        """Connections that are used, or opened for somebody."""
        return len(self._used) + self._coming

    @property
    def idle(self) -> int:
        """Connections that are open and nobody uses."""
        return len(self._idle)

    def take(self) -> WatchedConnection:
        """Take the connection that nobody has used for longest, or a new one.

        Raises:
            Unavailable: others use all of them for too long.
            psycopg2.Error: no connection could be opened.
        """
        with self._lock:
            if not self._idle:
                self._wait()
            if self._idle:
                connection = self._idle.popleft()
                self._used.add(connection)
                return connection
            self._coming += 1
        opened = None
        try:
            opened = self._connect()
            return opened
        finally:
            with self._lock:
                self._coming -= 1
                if opened is not None:
                    self._used.add(opened)
                else:
                    self._changed.notify()

    def _wait(self) -> None:
        """Wait until there is a connection, or place for one more."""
        self._waiting += 1
        try:
            if not self._changed.wait_for(self._has_one, self._timeout_s):
                raise Unavailable("every database connection is in use", hint="raise DB_POOL_MAX")
        finally:
            self._waiting -= 1

    def _has_one(self) -> bool:
        return bool(self._idle) or self.size == 0 or self.in_use < self.size

    def give_back(self, connection: WatchedConnection) -> None:
        """Keep a connection for the next one who takes it."""
        with self._lock:
            # One that was taken before `close` is not among them any more.
            is_kept = connection in self._used and self.size > 0
            self._used.discard(connection)
            if is_kept:
                self._idle.append(connection)
                if self._waiting:
                    self._changed.notify()
        if not is_kept:
            connection.close()

    def drop(self, connection: WatchedConnection) -> None:
        """Close a connection that was taken; another may be opened in its place."""
        with self._lock:
            self._used.discard(connection)
            self._changed.notify()
        connection.close()

    def close(self) -> None:
        """Close the connections that nobody uses, and those in use when they are given back."""
        with self._lock:
            idle, self._idle = self._idle, deque()
            self._used = set()
            self._changed.notify_all()
        for connection in idle:
            connection.close()


_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def _begin_anew() -> None:
    for pool in list(_POOLS):
        pool.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)
