"""Answers to requests with a plain head: the bytes that gunicorn would send, and what ends a connection."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http.wsgi import Response

from pipeweave.api.server.client_socket import ClientSocket
from pipeweave.api.server.plain_answer import PlainAnswer
from pipeweave.api.server.plain_requests import PlainRequests

Fields = list[tuple[str, str]]


class Ends:
    """The two ends of a connection."""

    def __init__(self) -> None:
        accepted, self.theirs = socket.socketpair()
        self.ours = ClientSocket.of(accepted)

    def sent(self) -> bytes:
        """All that the client gets."""
        self.ours.flush()
        self.ours.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: self.theirs.recv(65_536), b""))


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    with made.ours, made.theirs:
        yield made


def by_gunicorn(status: str, fields: Fields, parts: list[bytes]) -> bytes:
    """What gunicorn sends to a client that asked with POST."""
    ends = Ends()
    with ends.ours, ends.theirs:
        asked = SimpleNamespace(method="POST", version=(1, 1), should_close=lambda: False)
        answer = Response(asked, ends.ours, Config())
        answer.start_response(status, fields)
        for part in parts:
            answer.write(part)
        answer.close()
        return ends.sent()


def without_date(answer: bytes) -> bytes:
    return re.sub(rb"Date: [^\r]*", b"Date: now", answer)


@pytest.mark.parametrize(
    ("status", "fields", "parts"),
    [
        ("200 OK", [("Content-Length", "5"), ("X-A", " b ")], [b"hello"]),
        ("200 OK", [("Content-Length", "5")], [b"he", b"", b"llo", b"and more"]),
        ("200 OK", [("Content-Type", "text/plain")], [b"he", b"", b"llo"]),
        ("200 OK", [], []),
        ("201 CREATED", [("content-length", "0")], [b""]),
        (
            "200 OK",
            [("Connection", "close"), ("Date", "never"), ("Server", "me"), ("Content-Length", "0")],
            [],
        ),
        ("204 NO CONTENT", [("Content-Length", "0"), ("ETag", '"x"')], [b""]),
        ("304 NOT MODIFIED", [("Content-Length", "5"), ("ETag", '"x"')], [b""]),
        ("404 NOT FOUND", [("Content-Length", "2"), ("X-Name", "\xe4")], [b"{}"]),
    ],
)
def test_the_client_gets_what_gunicorn_would_send(
    ends: Ends, status: str, fields: Fields, parts: list[bytes]
) -> None:
    answer = PlainAnswer(ends.ours, is_kept=True)
    answer.start(status, fields)
    for part in parts:
        answer.write(part)
    answer.finish()
    assert answer.is_kept
    assert without_date(ends.sent()) == without_date(by_gunicorn(status, fields, parts))


@pytest.mark.parametrize("parts", [[], [b"hel"]])
def test_an_answer_shorter_than_its_length_ends_the_connection(ends: Ends, parts: list[bytes]) -> None:
    answer = PlainAnswer(ends.ours, is_kept=True)
    answer.start("200 OK", [("Content-Length", "5")])
    for part in parts:
        answer.write(part)
    answer.finish()
    assert not answer.is_kept


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ("200 OK\r\nX: y", []),
        ("OK", []),
        ("200 OK", [("X", "a\r\nY: b")]),
        ("200 OK", [("X", "a\nb")]),
        ("200 OK", [("X Y", "a")]),
        ("200 OK", [("", "a")]),
    ],
)
def test_a_head_that_would_be_another_one_is_never_sent(ends: Ends, status: str, fields: Fields) -> None:
    answer = PlainAnswer(ends.ours, is_kept=True)
    answer.start(status, [*fields, ("Content-Length", "2")])
    with pytest.raises(ValueError, match="is no"):
        answer.write(b"{}")
    assert ends.sent() == b""


def test_a_body_that_the_client_does_not_take_at_once_arrives_after_its_head(ends: Ends) -> None:
    content = b"x" * 1_500_000
    answer = PlainAnswer(ends.ours, is_kept=True)
    answer.start("200 OK", [("Content-Length", str(len(content)))])
    answer.write(content)
    answer.finish()
    taken = bytearray()
    while ends.ours.left:
        taken += ends.theirs.recv(65_536)
        ends.ours.flush()
    taken += ends.sent()
    assert taken.startswith(b"HTTP/1.1 200 OK\r\n")
    assert taken.partition(b"\r\n\r\n")[2] == content


# --- applications -----------------------------------------------------------------------------------------


def asked(ends: Ends, application: Any, **environ: str) -> bool:
    """Whether the connection is kept after a request to this application."""
    config = Config()
    requests = PlainRequests(application, lambda call: None, Logger(config))
    return requests.answer({"REQUEST_METHOD": "POST", **environ}, ends.ours, may_keep=True)


def hello(environ: dict[str, Any], start: Any) -> list[bytes]:
    start("200 OK", [("Content-Length", "5")])
    return [b"hello"]


def test_a_connection_is_kept_until_the_client_wants_to_close_it(ends: Ends) -> None:
    assert asked(ends, hello)
    assert asked(ends, hello, HTTP_CONNECTION="Keep-Alive")
    assert not asked(ends, hello, HTTP_CONNECTION="Close")
    assert re.findall(rb"Connection: ([a-z-]+)", ends.sent()) == [b"keep-alive", b"keep-alive", b"close"]


def test_an_application_that_fails_before_its_answer_is_told_as_an_error(ends: Ends) -> None:
    def fails(environ: dict[str, Any], start: Any) -> list[bytes]:
        raise RuntimeError("secret")

    assert not asked(ends, fails)
    sent = ends.sent()
    assert sent.startswith(b"HTTP/1.1 500 ") and b"secret" not in sent


def test_an_answer_that_breaks_off_is_neither_ended_nor_followed_by_another_one(ends: Ends) -> None:
    closed: list[bool] = []

    class Breaks:
        def __iter__(self) -> Iterator[bytes]:
            yield b"hel"
            raise RuntimeError

        def close(self) -> None:
            closed.append(True)

    def breaks(environ: dict[str, Any], start: Any) -> Breaks:
        start("200 OK", [])
        return Breaks()

    assert not asked(ends, breaks)
    assert closed == [True]
    assert ends.sent().partition(b"\r\n\r\n")[2] == b"3\r\nhel\r\n"
