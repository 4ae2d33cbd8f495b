"""No answer holds a thread for longer than the deadline, however it comes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from support.dripping import dripping
from support.servers import wait_until
from urllib3.connection import HTTPConnection

from pipeweave.errors import TargetRefused
from pipeweave.sending import Networks, NoReply, Sender, resolving, sender, targets

LOCAL = Networks(("loopback",))
# The test waits so long (s) for what must happen; a thread that is held would be held for ever.
DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "ANSWER_WITHIN_S", 0.3)


ANSWERS = {
    "an answer that ends with its connection": (b"HTTP/1.0 503 Busy\r\n\r\n", b"x"),
    "headers without an end": (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    "a status line without an end": (b"HTTP/1.1 2", b"0"),
    "a body of a length that never comes": (b"HTTP/1.1 200 OK\r\nContent-Length: 15000\r\n\r\n", b"x"),
    "chunks without an end": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_drips_is_cut(answer: str) -> None:
    with dripping(*ANSWERS[answer]) as service:
        reply = Sender(cuts=True).post(LOCAL.resolve(service.url), "/tasks/a", b"{}", {})
        assert service.cut.acquire(timeout=DEADLINE_S), "the connection is still open"
    assert isinstance(reply, NoReply) and reply.is_late and not reply.is_certain


def test_who_looks_for_late_connections_itself_cuts_answers_that_end_with_them() -> None:
    given = Sender()
    with dripping(b"HTTP/1.0 503 Busy\r\n\r\n") as service:
        target = LOCAL.resolve(service.url)
        asked = threading.Thread(target=given.get, args=(target, "/"), daemon=True)
        asked.start()
        assert service.taken.acquire(timeout=DEADLINE_S)
        while asked.is_alive():
            given.end_late()
            asked.join(0.05)


def test_a_connection_that_opens_when_the_time_is_up_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    given, open_now = Sender(cuts=True), sender._connection

    def late(*arguments: Any) -> HTTPConnection:
        connection = open_now(*arguments)
        connect = connection.connect

        def connect_late() -> None:
            wait_until(lambda: all(each.is_cut for each in given._open.values()))
            connect()

        monkeypatch.setattr(connection, "connect", connect_late)
        return connection

    monkeypatch.setattr(sender, "_connection", late)
    with dripping(b"HTTP/1.0 503 Busy\r\n\r\n") as service:
        target = LOCAL.resolve(service.url)
        asked = threading.Thread(target=given.get, args=(target, "/"), daemon=True)
        asked.start()
        asked.join(DEADLINE_S)
        assert not asked.is_alive()


@contextmanager
def nobody_resolves(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names that are asked for, of which `known.example` alone has an address."""
    is_over, asked, plain = threading.Event(), list[str](), socket.getaddrinfo

    def never(host: str, *rest: Any, **more: Any) -> Any:
        asked.append(host)
        if host == "known.example":
            return plain("127.0.0.1", *rest, **more)
        is_over.wait(DEADLINE_S)
        raise socket.gaierror("late")

    monkeypatch.setattr(socket, "getaddrinfo", never)
    try:
        yield asked
    finally:
        is_over.set()


def test_names_of_one_tenant_that_hang_leave_places_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "WITHIN_S", 0.1)
    with nobody_resolves(monkeypatch) as asked:
        for number in range(resolving.OF_ONE + 5):
            with pytest.raises(OSError, match=r"no answer within|other names are being looked up"):
                LOCAL.resolve(f"http://slow-{number}.example:1", "loud")
        # Other threads of this process may ask for names of their own.
        assert sum(each.startswith("slow-") for each in asked) == resolving.OF_ONE
        assert LOCAL.resolve("http://known.example:1", "quiet").address == "127.0.0.1"


def test_who_comes_later_does_not_wait_anew_for_a_name_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "WITHIN_S", 0.05)
    with nobody_resolves(monkeypatch):
        with pytest.raises(OSError, match="no answer within"):
            LOCAL.resolve("http://hanging.example:1", "later")
        monkeypatch.setattr(Future, "result", only_at_once)
        with pytest.raises(OSError, match="no answer within"):
            LOCAL.resolve("http://hanging.example:1", "later")


def only_at_once(future: Future[Any], timeout: float) -> Any:
    assert timeout < 0.04, "what is left, if a clock of the machine is coarse"
    raise TimeoutError


def test_a_check_waits_less_than_a_dispatch_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "CHECKED_WITHIN_S", 0.01)
    monkeypatch.setattr(resolving, "WITHIN_S", 10 * DEADLINE_S)
    with nobody_resolves(monkeypatch):
        LOCAL.check("http://checked.example:1", tenant="loud")


def test_a_name_that_nobody_resolves_costs_no_more_than_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over, asked = threading.Event(), []

    def never(host: str, *rest: object, **more: object) -> list[object]:
        asked.append(host)
        is_over.wait(DEADLINE_S)
        raise socket.gaierror("late")

    monkeypatch.setattr(resolving, "WITHIN_S", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", never)
    try:
        for _ in range(3):
            with pytest.raises(OSError, match="no answer within"):
                LOCAL.resolve("http://slow.example:1")
        assert asked == ["slow.example"], "one look-up of a name at a time"
    finally:
        is_over.set()


def test_a_refusal_does_not_tell_where_a_name_leads() -> None:
    with pytest.raises(TargetRefused) as refused:
        Networks(()).resolve("http://localhost:1")
    assert "127.0.0.1" not in str(refused.value.detail) and "::1" not in str(refused.value.detail)


def test_an_instance_that_is_away_is_certain_not_to_have_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    reply = Sender(cuts=True).post(LOCAL.resolve(f"http://127.0.0.1:{port}"), "/", b"", {})
    assert isinstance(reply, NoReply) and reply.is_certain
