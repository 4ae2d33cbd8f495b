"""What a thread does with a connection when it has answered a request, and what it leaves to the loop."""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from selectors import DefaultSelector
from typing import Any

import pytest
from gunicorn.config import Config

from pipeweave.api.server.connection import ClientConnection
from pipeweave.api.server.worker import ServerWorker

NEXT = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Behind:
    """Threads for which something waits, or nothing."""

    is_behind = False


class Loop:
    """The loop of a server process that does not run, and a client with one connection to it."""

    def __init__(self) -> None:
        accepted, self.client = socket.socketpair()
        self.conn = ClientConnection(Config(), accepted, ("127.0.0.1", 1), ("127.0.0.1", 2))
        self.worker: Any = ServerWorker.__new__(ServerWorker)
        self.left: list[ClientConnection] = []
        self.answered: list[str] = []
        self.answer: Callable[[], bool] = lambda: True
        self.threads = Behind()
        parts = {
            "alive": True,
            "log": logging.getLogger("test"),
            "poller": DefaultSelector(),
            "keepalived_conns": deque(),
            "method_queue": self,
            "handle": self.handle,
            "_idle_lock": threading.Lock(),
            "_threads": self.threads,
            "_is_page": lambda path: path.startswith("/ui"),
        }
        vars(self.worker).update(parts)

    def defer(self, _: object, conn: ClientConnection) -> None:
        self.left.append(conn)

    def handle(self, conn: ClientConnection) -> bool:
        self.answered.append(conn.environ["PATH_INFO"] if conn.environ else "")
        conn.environ = None
        return self.answer()

    def go(self, *sent: bytes, goes_on: bool = True) -> None:
        """Let a thread answer a request, behind which the client has sent this."""
        self.client.sendall(b"".join(sent))
        self.worker._answer(self.conn, goes_on=goes_on)

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for its next request, and the loop sees when it comes."""
        return self.conn in self.worker.keepalived_conns and self.conn.sock in self.worker.poller.get_map()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.worker.poller.close()
    made.client.close()
    made.conn.close()


def test_a_connection_whose_client_has_its_answer_waits_and_the_loop_is_not_woken(loop: Loop) -> None:
    loop.go()
    assert loop.is_idle and loop.left == []


def test_requests_that_have_come_meanwhile_are_answered_by_the_same_thread(loop: Loop) -> None:
    loop.go(NEXT)
    assert (loop.answered, loop.left, loop.is_idle) == (["", "/api/runs"], [], True)


@pytest.mark.parametrize(
    "sent", [NEXT[:20], NEXT.replace(b"api/runs", b"health"), NEXT.replace(b"api", b"ui")]
)
def test_a_part_of_a_request_and_one_for_other_threads_are_left_to_the_loop(loop: Loop, sent: bytes) -> None:
    loop.go(sent)
    assert (loop.answered, loop.left, loop.is_idle) == ([""], [loop.conn], False)
    assert loop.conn.arrived == sent


def test_while_others_wait_for_a_thread_none_goes_on(loop: Loop) -> None:
    loop.threads.is_behind = True
    loop.go(NEXT)
    assert loop.answered == [""] and loop.is_idle


def test_threads_for_one_kind_of_request_leave_the_next_one_to_the_loop(loop: Loop) -> None:
    loop.go(NEXT, goes_on=False)
    assert (loop.answered, loop.left, loop.is_idle) == ([""], [loop.conn], False)


def test_what_a_client_has_not_taken_is_left_to_the_loop(loop: Loop) -> None:
    loop.conn.sock.add(b"more")
    loop.go(NEXT)
    assert (loop.answered, loop.left) == ([""], [loop.conn])


def test_a_process_that_stops_leaves_its_connections_to_the_loop(loop: Loop) -> None:
    loop.worker.alive = False
    loop.go(NEXT)
    assert (loop.answered, loop.left) == ([""], [loop.conn])


def test_a_connection_whose_answer_failed_is_not_kept(loop: Loop) -> None:
    def fail() -> bool:
        raise ValueError("x")

    loop.answer = fail
    loop.conn.is_kept = True
    loop.go(NEXT)
    assert loop.left == [loop.conn] and not loop.conn.is_kept


def test_a_client_that_breaks_its_connection_is_no_error(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(size: int) -> bytes:
        raise ConnectionResetError(size)

    monkeypatch.setattr(loop.conn.sock, "take", broken)
    loop.go()
    assert loop.left == [loop.conn] and not loop.conn.is_kept
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
