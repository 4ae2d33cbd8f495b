"""Finds connections that have gone silent: their packets are dropped, or something in between swallows them.

The driver would wait for an answer for ever. How long a statement may take nobody knows, so no time limit
tells the two apart. A thread of the process does: when an answer takes long, it asks the server on another
connection what it does for that session. If the server waits for its client in turn, or has no such session,
the session is ended there, and the connection is closed here. Whoever waited gets an error of the driver, as
if the server had closed it. A statement pays two additions for it.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as PlainCursor
from psycopg2.extensions import make_dsn, parse_dsn

from pipeweave.orchestrator.store import other_end
from pipeweave.orchestrator.store.other_end import ServerActivity

log = logging.getLogger(__name__)

# How often the thread looks whether someone waits (s). With the two times below, a silent connection is found
# within three seconds.
LOOK_EVERY_S = 1.0
# The server is asked about a session that was seen waiting so long (s) ago, then again after as long a
# time, but within ASK_EVERY_S.
ASK_AFTER_S = 1.0
ASK_EVERY_S = 5.0
# An answer may be on its way: only what is found twice, so far apart (s), is silent.
AGAIN_AFTER_S = 1.0
# Where the server cannot be asked (it takes no connection, or a pooler is in between), an answer may take so
# long (s).
UNKNOWN_FOR_S = 30.0

# The bytes that were acknowledged and received, in Linux's `struct tcp_info`.
_TCP_INFO = struct.Struct("120xQQ")


@dataclass(slots=True)
class Suspicion:
    """What is known of one wait for an answer. Times are seconds of the monotonic clock.

    Args:
        wait: which wait of its session it is.
        since: when the wait was first seen.
        ask_at: when to ask the server next.
        moved: how many bytes the connection had moved when it was last found silent; None before.
    """

    wait: int
    since: float
    ask_at: float
    moved: int | None = None

    def is_confirmed(self, finding: ServerActivity, moved: int, now: float) -> bool:
        """Take in what the server said; whether nobody will answer any more."""
        waited = now - self.since
        if finding is ServerActivity.SILENT:
            is_second, self.moved = moved == self.moved, moved
            self.ask_at = now + AGAIN_AFTER_S
            return is_second
        self.moved = None
        self.ask_at = now + min(waited, ASK_EVERY_S)
        return finding is ServerActivity.UNKNOWN and waited >= UNKNOWN_FOR_S


class WatchedConnection(Connection):
    """A connection that tells whether it waits for an answer.

    Attributes:
        waits: grows by one when a wait begins and when it ends; it is odd while the session waits.
        pid: of its process on the server.
        server: how to reach the server, for the driver.
        suspicion: of its current wait, or of an earlier one.
        used_at: when it was last given back (s, monotonic clock); None before.
        local: the statements that give each transaction its settings, if a pooler is in between.
        prepared: the names of the statements that its session has prepared.
    """

    def __init__(self, dsn: str, *arguments: Any) -> None:
        super().__init__(dsn, *arguments)
        self.waits = 0
        self.suspicion: Suspicion | None = None
        self.used_at: float | None = None
        self.local: str | None = None
        self.prepared: set[str] = set()
        self._opened_by = os.getpid()
        self.pid = self.get_backend_pid()
        # The options are those of this session; a question needs none. Of several servers only this one
        # knows the session, whatever became of it meanwhile.
        own = {"host": self.info.host, "port": self.info.port, "target_session_attrs": "any"}
        several = "," in parse_dsn(dsn).get("host", "")
        self.server = make_dsn(dsn, options="", **(own if several else {}))
        # A descriptor of its own: the driver may close the other at any time, and its number is used again.
        self._line = os.dup(self.fileno())
        self._close_line = weakref.finalize(self, os.close, self._line)
        self._close_line.atexit = False
        WATCH.add(self)

    def close(self) -> None:
        """Close it. In a process forked from the one that opened it, it stays open for that one."""
        with WATCH.lock:
            self._close_line()
        # The driver says farewell to the server, which would end the session.
        if self._opened_by == os.getpid():
            super().close()

    def cut(self) -> None:
        """End the connection under whoever waits for an answer: he gets an error."""
        with WATCH.lock, suppress(OSError):
            if self._close_line.alive:
                with _socket(self._line) as line:
                    line.shutdown(socket.SHUT_RDWR)

    def moved(self) -> int:
        """How many bytes were acknowledged by the other end or received; 0 where the system does not tell."""
        with WATCH.lock, suppress(OSError, struct.error):
            if sys.platform == "linux" and self._close_line.alive:
                with _socket(self._line) as line:
                    info = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
                    return sum(_TCP_INFO.unpack(info))
        return 0


class Cursor(PlainCursor):
    """A cursor whose session tells that it waits."""

    __slots__ = ()

    connection: WatchedConnection

    def execute(self, query: Any, vars: Any = None) -> None:
        """Execute a statement and wait for its answer."""
        session = self.connection
        session.waits += 1
        try:
            super().execute(query, vars)
        finally:
            session.waits += 1


@contextmanager
def _socket(descriptor: int) -> Iterator[socket.socket]:
    """A socket by its descriptor, which stays open."""
    line = socket.socket(fileno=descriptor)
    try:
        yield line
    finally:
        line.detach()


class SessionWatch:
    """The thread of this process that looks after its sessions; it runs while there are any.

    Attributes:
        found_at: when a session was last found silent (s, monotonic clock); others may be silent, too.
    """

    def __init__(self) -> None:
        self.found_at = 0.0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget the sessions and the thread: they are those of the process that this one was forked from."""
        self.lock = threading.Lock()
        self._sessions: weakref.WeakSet[WatchedConnection] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, session: WatchedConnection) -> None:
        """Look after a session until it is closed or forgotten."""
        with self.lock:
            self._sessions.add(session)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="silence", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            with self.lock:
                sessions = [each for each in self._sessions if not each.closed]
                if not sessions:
                    self._thread = None
                    return
            try:
                self._look_at(sessions)
            except Exception:
                log.exception("silence.failed")
            del sessions

    def _look_at(self, sessions: list[WatchedConnection]) -> None:
        now = time.monotonic()
        due: defaultdict[str, list[tuple[WatchedConnection, Suspicion]]] = defaultdict(list)
        for session in sessions:
            wait, suspicion = session.waits, session.suspicion
            if wait % 2 == 0:
                continue
            if suspicion is None or suspicion.wait != wait:
                session.suspicion = Suspicion(wait, now, now + ASK_AFTER_S)
            elif now >= suspicion.ask_at:
                due[session.server].append((session, suspicion))
        for server, waiting in due.items():
            self._ask(server, waiting)

    def _ask(self, server: str, waiting: list[tuple[WatchedConnection, Suspicion]]) -> None:
        asked = time.monotonic()
        findings = other_end.ask(server, [(session.pid, asked - each.since) for session, each in waiting])
        now = time.monotonic()
        lost = [
            (session, each)
            for (session, each), finding in zip(waiting, findings, strict=True)
            if each.is_confirmed(finding, session.moved(), now) and session.waits == each.wait
        ]
        if lost:
            self.found_at = now
            other_end.end(server, [(session.pid, now - each.since) for session, each in lost])
        for session, each in lost:
            if session.waits == each.wait:
                log.warning(
                    "session.silent", extra={"pid": session.pid, "seconds": round(now - each.since, 1)}
                )
                session.cut()


WATCH = SessionWatch()
os.register_at_fork(after_in_child=WATCH.begin_anew)
