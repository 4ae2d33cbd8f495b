"""The socket of one client: threads wait for the client only up to a deadline, and leave to the loop what it
does not take of an answer.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from typing import Any

from pipeweave.api.http.outlet import Outlet
from pipeweave.api.server.deadlines import ANSWER_S, MAX_BACKLOG, SMALL_ANSWER, STALL_S

# Parts of an answer that one system call sends.
_AT_ONCE = 64


def _is_head(data: bytes) -> bool:
    """Whether this is the head of an answer and no more, and not one that tells the client to go on."""
    return data[:9] == b"HTTP/1.1 " and data[9:10] != b"1" and data[-4:] == b"\r\n\r\n"


class ClientSocket(socket.socket):
    """A socket that is always in non-blocking mode.

    Attributes:
        deadline: until when a thread waits for what this client sends, on `time.monotonic()`.
        unsent: parts of the answer that the client has not taken yet. A thread adds to them while it answers,
            afterwards the loop sends them.
        outlet: what the loop sends from now on, until it ends: the connection serves a stream.
        awaits_body: whether the body of its request is yet to come: a thread would wait for it.
    """

    deadline: float
    unsent: list[memoryview]
    outlet: Outlet | None
    awaits_body: bool

    @classmethod
    def of(cls, accepted: socket.socket) -> ClientSocket:
        """Take over an accepted socket."""
        family, kind, protocol = accepted.family, accepted.type, accepted.proto
        made = cls(family, kind, protocol, fileno=accepted.detach())
        super(ClientSocket, made).setblocking(False)
        made.deadline = time.monotonic()
        made.unsent = []
        made.outlet = None
        made.awaits_body = False
        return made

    def take_over(self, outlet: Outlet) -> None:
        """Let the loop send what is in this outlet, after the head of the answer."""
        self.outlet = outlet

    def setblocking(self, flag: bool, /) -> None:
        """Do nothing: gunicorn would make the socket wait for ever."""

    def settimeout(self, value: float | None, /) -> None:
        """Do nothing: `deadline` says how long a thread waits."""

    def take(self, size: int) -> bytes | None:
        """What the client has sent: None for nothing yet, empty when it has closed.

        Raises:
            OSError: the connection is broken.
        """
        try:
            return super().recv(size)
        except BlockingIOError:
            return None

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """What the client has sent, or sends until the deadline.

        Raises:
            TimeoutError: it sent nothing.
            OSError: the connection is broken.
        """
        while (data := self.take(size)) is None:
            self._wait(select.POLLIN, self.deadline)
        return data

    def send(self, data: Any, flags: int = 0, /) -> int:
        """As `sendall`."""
        self.sendall(data)
        return len(data)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send what the client takes now, and leave the rest to the loop. The head of an answer goes with
        what follows it, so that the client is woken once.

        If the rest is large, and much waits for other clients already, wait until this client has taken it.

        Raises:
            TimeoutError: the client took nothing for STALL_S, or not all of it in ANSWER_S.
            OSError: the connection is broken.
        """
        self.add(data)
        if not _is_head(data):
            self.flush()
        latest = time.monotonic() + ANSWER_S
        while self.left > SMALL_ANSWER and _backlog.size > MAX_BACKLOG:
            self._wait(select.POLLOUT, min(latest, time.monotonic() + STALL_S))
            self.flush()

    def send_now(self, head: bytes, body: bytes) -> None:
        """As `sendall`, of the first two parts of an answer: most clients take them at once.

        Raises:
            TimeoutError: the client took nothing for STALL_S, or not all of it in ANSWER_S.
            OSError: the connection is broken.
        """
        try:
            sent = 0 if self.unsent else super().sendmsg((head, body))
        except BlockingIOError:
            sent = 0
        if sent < len(head):
            self.add(head[sent:])
        if sent < len(head) + len(body):
            self.sendall(body[max(0, sent - len(head)) :])

    def wait_until_taken(self, most: int) -> None:
        """Wait until the client has taken all but so many bytes.

        Raises:
            TimeoutError: the client took nothing for STALL_S.
            OSError: the connection is broken.
        """
        while self.left > most:
            self._wait(select.POLLOUT, time.monotonic() + STALL_S)
            self.flush()

    def add(self, data: bytes) -> None:
        """Let the loop send this, after what the client has not taken yet."""
        if data:
            self.unsent.append(memoryview(data))
            _backlog.add(len(data))

    @property
    def left(self) -> int:
        """How many bytes the client has not taken yet."""
        return sum(map(len, self.unsent))

    def flush(self) -> int:
        """Send what the client takes now, and return how many bytes that were.

        Raises:
            OSError: the connection is broken.
        """
        count = 0
        while self.unsent:
            try:
                sent = super().sendmsg(self.unsent[:_AT_ONCE])
            except BlockingIOError:
                break
            count += sent
            self._drop(sent)
        _backlog.add(-count)
        return count

    def _drop(self, sent: int) -> None:
        while sent:
            part = self.unsent[0][sent:]
            sent -= len(self.unsent[0]) - len(part)
            if part:
                self.unsent[0] = part
            else:
                del self.unsent[0]

    def close(self) -> None:
        """Close the connection, whatever is unsent."""
        _backlog.add(-self.left)
        self.unsent.clear()
        super().close()

    def _wait(self, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(self, event)
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError("the client took too long")


class _Backlog:
    """How many bytes wait for the clients of this process."""

    def __init__(self) -> None:
        self.size = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.size += count


_backlog = _Backlog()
