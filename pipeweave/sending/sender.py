"""Sends requests: each to an address that was checked, with a deadline for the whole exchange.

Connections are kept for a moment and used again, because opening one costs as much as the request. One that
was idle for longer is closed instead: services close idle connections, some after two seconds, and a request
that meets such a close cannot be told from one that was taken.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from socket import SHUT_RDWR
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from pipeweave.sending.plain_exchange import ExchangedAnswer, exchange
from pipeweave.sending.targets import Target

# A service has to take a dispatch, or a hook, within this long (s); it works afterwards.
ANSWER_WITHIN_S = 5.0
# Connections that were idle for longer (s) are not used again.
MAX_IDLE_S = 1.0
# The part of an answer that is read (bytes): enough for its error.
MAX_ANSWER = 16 * 1024
MOST_KEPT = 16
# The certificates of authorities are read again after so long (s): they may be exchanged on the disk.
AUTHORITIES_S = 600.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a service.

    Args:
        retry_after: of the header Retry-After; None without one.
        text: the body, or its beginning; what is no UTF-8 is replaced.
        is_whole: whether that is all of it.
        headers: by their names in lower case; of several with one name, all, joined by commas.
        content: the bytes that `text` was made of.
    """

    status: int
    retry_after: str | None
    text: str
    is_whole: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class NoReply:
    """There was no answer.

    Args:
        reason: for people.
        is_certain: whether the service certainly did not get the request.
        is_late: whether the time was up.
    """

    reason: str
    is_certain: bool
    is_late: bool = False


@dataclass(slots=True)
class _Open:
    connection: HTTPConnection
    deadline: float
    # http.client forgets the socket of an answer that ends with its connection.
    sock: Any = None
    is_cut: bool = False

    def cut(self) -> None:
        """End the connection, whoever reads from it."""
        self.is_cut = True
        with suppress(OSError, AttributeError):
            (self.sock or self.connection.sock).shutdown(SHUT_RDWR)


@dataclass(slots=True)
class _KeptConnection:
    connection: HTTPConnection
    since: float


@dataclass(slots=True)
class _Authorities:
    """The certificates of those who vouch for servers. To read them takes longer than many requests."""

    _read: tuple[float, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """What a new connection checks its server with."""
        read, now = self._read, time.monotonic()
        if read is None or now >= read[0]:
            read = self._read = (now + AUTHORITIES_S, ssl.create_default_context())
        return read[1]


@dataclass(slots=True)
class Sender:
    """Sends requests from several threads. A forked child must make its own.

    Args:
        cuts: whether each exchange is cut by a timer of its own when its time is up; otherwise who sends many
            at a time calls `end_late` meanwhile.
        within_s: how long an exchange may take (s); None: ANSWER_WITHIN_S.
        most_bytes: so much of an answer is read.
    """

    cuts: bool = False
    within_s: float | None = None
    most_bytes: int = MAX_ANSWER
    _kept: dict[Target, list[_KeptConnection]] = field(default_factory=dict)
    _open: dict[int, _Open] = field(default_factory=dict)
    _authorities: _Authorities = field(default_factory=_Authorities)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def limit_s(self) -> float:
        """How long an exchange may take (s)."""
        return ANSWER_WITHIN_S if self.within_s is None else self.within_s

    def request(
        self, method: str, target: Target, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply | NoReply:
        """Send one request; redirects are not followed.

        Args:
            path: with the path of the target, and the query.
        """
        return self._exchange(method, target, path, body, headers)

    def post(self, target: Target, path: str, body: bytes, headers: Mapping[str, str]) -> Reply | NoReply:
        """Send one POST request; redirects are not followed.

        Args:
            path: with the path of the target.
        """
        return self._exchange("POST", target, path, body, headers)

    def get(self, target: Target, path: str, headers: Mapping[str, str] | None = None) -> Reply | NoReply:
        """Send one GET request; redirects are not followed."""
        return self._exchange("GET", target, path, None, headers or {})

    def end_late(self) -> None:
        """Cut the connections whose time is up. A service that sends its answer byte by byte would otherwise
        hold its thread for as long as it likes.
        """
        now = time.monotonic()
        with self._lock:
            late = [each for each in self._open.values() if each.deadline < now]
        for each in late:
            each.cut()

    def close(self) -> None:
        """Close every kept connection."""
        with self._lock:
            kept = [each.connection for several in self._kept.values() for each in several]
            self._kept.clear()
        for connection in kept:
            connection.close()

    def _exchange(
        self, method: str, target: Target, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply | NoReply:
        deadline = time.monotonic() + self.limit_s
        connection = self._take(target)
        with self._lock:
            opened = self._open[id(connection)] = _Open(connection, deadline)
        is_sent = False
        watch = threading.Timer(self.limit_s, opened.cut) if self.cuts else None
        try:
            if watch is not None:
                watch.daemon = True
                watch.start()
            if connection.sock is None:
                connection.connect()
            opened.sock = connection.sock
            if opened.is_cut:
                # The time was up while there was nothing to cut yet.
                raise TimeoutError("the connection was late")
            is_sent = True
            named = {"Host": target.host_header, **headers}
            answer = exchange(connection, method, path, body, named, self.most_bytes)
            if opened.is_cut:
                raise TimeoutError("the answer was cut")
        except (OSError, HTTPError, HTTPException, ValueError) as error:
            connection.close()
            is_late = time.monotonic() >= deadline
            return _no_reply(error, self.limit_s, is_certain=not is_sent, is_late=is_late)
        finally:
            if watch is not None:
                watch.cancel()
            with self._lock:
                del self._open[id(connection)]
        if answer.is_last:
            connection.close()
        else:
            self._keep(target, connection)
        return _reply(answer, self.most_bytes)

    def _take(self, target: Target) -> HTTPConnection:
        oldest = time.monotonic() - MAX_IDLE_S
        with self._lock:
            kept = self._kept.get(target, [])
            idle = kept.pop() if kept else None
        if idle is not None and idle.since >= oldest and idle.connection.is_connected:
            return idle.connection
        if idle is not None:
            idle.connection.close()
        return _connection(target, self.limit_s, self._authorities)

    def _keep(self, target: Target, connection: HTTPConnection) -> None:
        with self._lock:
            kept = self._kept.setdefault(target, [])
            is_room = len(kept) < MOST_KEPT
            if is_room:
                kept.append(_KeptConnection(connection, time.monotonic()))
        if not is_room:
            connection.close()


def _connection(target: Target, within_s: float, authorities: _Authorities) -> HTTPConnection:
    options: dict[str, Any] = {"timeout": within_s}
    if target.scheme == "http":
        return HTTPConnection(target.address, target.port, **options)
    return HTTPSConnection(
        target.address,
        target.port,
        server_hostname=target.host,
        assert_hostname=target.host,
        ssl_context=authorities.context(),
        **options,
    )


def _reply(answer: ExchangedAnswer, most: int) -> Reply:
    content, headers = answer.content[:most], answer.headers
    text = content.decode(errors="replace")
    is_whole = len(answer.content) <= most
    return Reply(answer.status, headers.get("retry-after"), text, is_whole, headers, content)


def _no_reply(error: Exception, within_s: float, *, is_certain: bool, is_late: bool) -> NoReply:
    is_late = is_late or isinstance(error, TimeoutError) or "timed out" in str(error)
    if is_late:
        return NoReply(f"no answer within {within_s:g} s", is_certain, is_late=True)
    cause = error.__cause__ or error
    reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return NoReply(reason[:300], is_certain)
