"""Requests of one connection: in their order, one at a time, and no more than may wait."""

from __future__ import annotations

from collections.abc import Callable

from pipeweave.api.http import request_line
from pipeweave.api.http.outlet import MAX_BYTES, Outlet
from pipeweave.api.http.request_line import RequestLine


class Connection:
    """A line whose requests a test lets a thread answer, one by one."""

    def __init__(self, size: int = 1) -> None:
        self.begun: list[bytes] = []
        self._size = size
        self._submitted: list[Callable[[], None]] = []
        self.outlet = Outlet(taken=lambda: self.line.go_on())
        self.line = RequestLine(self._answer, self._submitted.append, self.outlet)

    def _answer(self, message: bytes) -> bytes:
        self.begun.append(message)
        return message * self._size

    def add(self, *messages: bytes) -> list[bool]:
        return [self.line.add(each) for each in messages]

    @property
    def is_busy(self) -> bool:
        return bool(self._submitted)

    def serve(self) -> None:
        """Let a thread answer what it has."""
        assert len(self._submitted) == 1, "a connection occupies one thread"
        self._submitted.pop()()


def test_requests_are_answered_one_after_another_in_their_order() -> None:
    connection = Connection()
    assert connection.add(b"1", b"2", b"3") == [True] * 3
    for _ in range(3):
        connection.serve()
    assert connection.begun == [b"1", b"2", b"3"]
    assert connection.outlet.take() == b"123"
    assert not connection.is_busy


def test_no_more_wait_than_may() -> None:
    connection = Connection()
    most = request_line.MOST_WAITING
    assert connection.add(*[b"x"] * (most + 3)) == [True] * (most + 1) + [False] * 2
    connection.serve()
    assert connection.add(b"x", b"x") == [True, False]


def test_no_more_bytes_wait_than_may() -> None:
    connection = Connection()
    large = b"x" * request_line.MAX_WAITING_BYTES
    assert connection.add(b"under way", large, b"x") == [True, True, False]


def test_the_next_begins_when_there_is_room_for_its_answer() -> None:
    connection = Connection(size=MAX_BYTES)
    connection.add(b"1", b"2")
    connection.serve()
    assert not connection.is_busy
    assert connection.outlet.take() == b"1" * MAX_BYTES
    connection.serve()
    assert connection.begun == [b"1", b"2"]


def test_an_answer_is_sent_however_many_changes_wait() -> None:
    connection = Connection(size=10_000)
    connection.add(b"1")
    while connection.outlet.put(b"change" * 1_000):
        pass
    connection.serve()
    assert connection.outlet.take().endswith(b"change" + b"1" * 10_000)


def test_whoever_stops_it_waits_for_the_one_under_way_and_begins_no_other() -> None:
    connection = Connection()
    connection.add(b"1", b"2")
    connection.line.stop(lambda: connection.outlet.end(b"bye"))
    assert connection.outlet.is_open
    connection.line.stop(lambda: connection.outlet.end(b"another"))
    connection.serve()
    assert connection.outlet.take() == b"1bye"
    connection.add(b"3")
    assert not connection.is_busy


def test_nothing_begins_for_a_client_that_has_left() -> None:
    connection = Connection()
    connection.add(b"1", b"2")
    connection.outlet.leave()
    connection.serve()
    assert not connection.is_busy
    assert connection.outlet.take() == b""
