"""What is plain is sent and read here; everything else as http.client sends and reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.counted_calls import counted_calls
from support.scripted_server import BODY, Scripted, answering

from pipeweave.sending import Networks, NoReply, Reply, Sender, plain_exchange

LOCAL = Networks(("loopback",))
PLAIN = {"Content-Type": "application/json"}


def asked(
    served: Scripted, path: str = "/tasks/a", headers: dict[str, str] | None = None, most: int = 100
) -> Reply | NoReply:
    given = Sender(most_bytes=most)
    reply = given.post(LOCAL.resolve(served.url), path, BODY, headers or {})
    given.close()
    return reply


HEAD = b"HTTP/1.1 202 Accepted\r\nContent-Type: text/plain\r\nX-A: 1\r\nx-a: 2\r\n"
ANSWERS: dict[str, Sequence[bytes]] = {
    "in one piece": [HEAD + b"Content-Length: 5\r\n\r\nhello"],
    "its body apart": [HEAD + b"Content-Length: 5\r\n\r\n", b"he", b"llo"],
    "its head in pieces": [HEAD, b"Content-Length: 5\r\n", b"\r\nhello"],
    "in chunks": [HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", b"3\r\nllo\r\n0\r\n\r\n"],
    "to the end of its connection": [HEAD + b"\r\nhel", b"lo"],
    "after another that says to go on": [
        b"HTTP/1.1 100 Go on\r\n\r\n" + HEAD + b"Content-Length: 5\r\n\r\nhello"
    ],
    "of HTTP/1.0": [HEAD.replace(b"1.1", b"1.0") + b"Content-Length: 5\r\n\r\nhello"],
    "with a folded line": [HEAD + b"X-B: c\r\n d\r\nContent-Length: 5\r\n\r\nhello"],
    "with a length and chunks": [
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    ],
}


@pytest.mark.parametrize("pieces", ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_says_the_same_however_it_comes(pieces: Sequence[bytes]) -> None:
    with answering(*pieces) as served:
        reply = asked(served)
    assert isinstance(reply, Reply), reply
    assert (reply.status, reply.text, reply.is_whole) == (202, "hello", True)
    assert (reply.headers["content-type"], reply.headers["x-a"]) == ("text/plain", "1, 2")


def test_a_plain_answer_costs_http_client_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(plain_exchange, "_any")
    with answering(*ANSWERS["in one piece"]) as served:
        assert isinstance(asked(served), Reply)


def test_an_exchange_costs_so_many_calls_of_functions() -> None:
    with answering(*ANSWERS["in one piece"], of_a_connection=20) as served:
        target, given = LOCAL.resolve(served.url), Sender()

        def cost() -> int:
            with counted_calls() as calls:
                given.post(target, "/tasks/a", BODY, PLAIN)
            return calls.total()

        assert min(cost() for _ in range(10)) <= 100
        given.close()


def test_of_an_answer_that_is_long_the_beginning_is_read() -> None:
    with answering(HEAD + b"Content-Length: 500\r\n\r\n" + b"x" * 500) as served:
        reply = asked(served)
    assert isinstance(reply, Reply) and not reply.is_whole
    assert reply.text == "x" * 100


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_an_answer_without_a_body_ends_with_its_head(status: bytes) -> None:
    with answering(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n") as served:
        reply = asked(served)
    assert isinstance(reply, Reply) and (reply.status, reply.text) == (int(status[:3]), "")


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 2", HEAD + b"Content-Length: 9\r\n\r\nhello", b"hello\r\n\r\n"]
)
def test_an_answer_that_is_cut_short_is_none(said: bytes) -> None:
    with answering(said) as served:
        reply = asked(served)
    assert isinstance(reply, NoReply) and not reply.is_certain


def requests_of_two(*pieces: bytes, headers: dict[str, str] | None = None) -> list[list[bytes]]:
    """What two requests of one sender were, by connection."""
    with answering(*pieces, of_a_connection=2) as served:
        target, given = LOCAL.resolve(served.url), Sender()
        for _ in range(2):
            assert isinstance(given.post(target, "/tasks/a", BODY, headers or {}), Reply)
        given.close()
    return [each for each in served.requests if each]


@pytest.mark.parametrize(
    ("said", "connections"),
    [
        (ANSWERS["in one piece"], 1),
        (ANSWERS["in chunks"], 1),
        ([HEAD + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello"], 2),
        ([HEAD + b"Content-Length: 5\r\n\r\nhello, and more"], 2),
    ],
)
def test_a_connection_is_used_again_unless_more_may_come(said: Sequence[bytes], connections: int) -> None:
    assert len(requests_of_two(*said)) == connections


def test_a_request_says_where_it_goes_who_sends_it_and_how_long_it_is() -> None:
    [[request, _]] = requests_of_two(*ANSWERS["in one piece"], headers=PLAIN)
    head, _, body = request.decode().partition("\r\n\r\n")
    lines = head.split("\r\n")
    assert (lines[0], body.encode()) == ("POST /tasks/a HTTP/1.1", BODY)
    assert lines[2].startswith("Host: 127.0.0.1:")
    assert {lines[1], *lines[3:]} == {
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        "User-Agent: pipeweave",
        f"Content-Length: {len(BODY)}",
    }


@pytest.mark.parametrize("headers", [{"Content-Length": str(len(BODY))}, {"X-Name": "Zoë"}])
def test_a_request_that_is_not_plain_is_sent_by_http_client(headers: dict[str, str]) -> None:
    name, value = next(iter(headers.items()))
    for [request] in requests_of_two(*ANSWERS["in one piece"], headers=headers):
        assert request.lower().count(f"\r\n{name}: {value}\r\n".lower().encode("latin-1")) == 1


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/a b", {}),
        ("/a\r\nX-B: c", {}),
        ("/a HTTP/1.1\r\nX-B: c", {}),
        ("/a", {"X-A": "b\r\nX-B: c"}),
        ("/a", {"X:": "b"}),
    ],
)
def test_nobody_can_slip_a_line_into_a_request(path: str, headers: dict[str, Any]) -> None:
    with answering(*ANSWERS["in one piece"]) as served:
        reply = asked(served, path, headers)
    assert isinstance(reply, NoReply)
    assert not any(served.requests)
