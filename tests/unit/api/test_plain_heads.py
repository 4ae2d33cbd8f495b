"""A head that is read by one expression is read as gunicorn reads it, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import RequestParser
from gunicorn.http.errors import ParseException
from gunicorn.http.wsgi import create
from hypothesis import example, given
from hypothesis import strategies as st

from pipeweave.api.server import one_reading, plain_head
from pipeweave.api.server.plain_environ import PlainEnviron

NEAR, FAR, SERVER = ("127.0.0.1", 4711), ("192.0.2.7", 4711), ("127.0.0.1", 3000)
BODY = b'{"input": 1}'
# Of the server, not of the request.
NOT_COMPARED = ("wsgi.errors", "wsgi.input", "wsgi.multithread", "wsgi.early_hints")
USUAL = (
    b"POST /api/pipelines/shop/trigger?wait=1 HTTP/1.1\r\nHost: localhost:3000\r\nUser-Agent: curl/8\r\n"
    b"Authorization: Bearer pw_x\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"
)


def read(head: bytes, peer: tuple[str, int]) -> dict[str, Any] | None:
    """The environ of a plain head; None for another one."""
    common = PlainEnviron.of(Config(), peer, SERVER)
    assert common is not None
    variables = plain_head.read(head, common.scheme_keys)
    return None if variables is None else common.of_request(variables, BODY, None)


def read_by_gunicorn(head: bytes, peer: tuple[str, int]) -> tuple[dict[str, Any], bool, bytes]:
    """The environ, whether the connection ends, and what is left of the head and its body afterwards."""
    parser = RequestParser(Config(), iter([head + BODY]), peer)
    request = next(parser)
    one_reading.check(request)
    _, environ = create(request, None, peer, SERVER, Config())
    return environ, request.should_close(), parser.unreader.take_buffered()


def compared(environ: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in environ.items() if key not in NOT_COMPARED}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_usual_heads_are_plain(method: str) -> None:
    head = USUAL.replace(b"POST", method.encode())
    environ = read(head, FAR)
    assert environ is not None and environ["wsgi.input"].read() == BODY
    assert compared(environ) == compared(read_by_gunicorn(head, FAR)[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"curl/8", b"\xa0\x85\t x \t"),
        (b"curl/8", b""),
        (b"?wait=1", b""),
        (b"?wait=1", b"?"),
        (b"?wait=1", b"?a?b=%2f&c"),
        (b"/shop", b"/a%20b%2Fc%E4%zz%"),
        (b"/shop", b"//shop/../[:]@"),
        (b"Host", b"hOST"),
        (b"User-Agent", b"HTTP-Host"),
        (b"User-Agent", b"Script-Name"),
        (b"Length: 12", b"Length: 0012"),
    ],
)
def test_unusual_but_plain_heads_are_read_as_gunicorn_reads_them(old: bytes, new: bytes) -> None:
    assert old in USUAL
    head = USUAL.replace(old, new, 1)
    environ = read(head, FAR)
    assert environ is not None
    assert compared(environ) == compared(read_by_gunicorn(head, FAR)[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"POST", b"HEAD"),
        (b"POST", b"post"),
        (b"/api", b"//api"),
        (b"/api", b"http://localhost:3000/api"),
        (b"?wait", b"#wait"),
        (b"?wait", b"?\x80"),
        (b"localhost", b"me@localhost"),
        (b"Host: localhost:3000\r\n", b""),
        (b"\r\nUser-Agent", b"\nUser-Agent"),
        (b"\r\nUser-Agent", b"\rX: y\r\nUser-Agent"),
        (b"User-Agent", b"User_Agent"),
        (b"User-Agent:", b"User-Agent :"),
        (b"User-Agent: curl/8", b"Accept: x\r\n y"),
        (b"curl/8", b"a\x00b"),
        (b"curl/8", b"a\x7fb"),
        (b"User-Agent: curl/8", b"Host: other"),
        (b"User-Agent: curl/8", b"Content-Length: 12"),
        (b"User-Agent: curl/8", b"Transfer-Encoding: chunked"),
        (b"User-Agent: curl/8", b"Expect: 100-continue"),
        (b"User-Agent: curl/8", b"Connection: Upgrade\r\nUpgrade: websocket"),
        (b"User-Agent: curl/8", b"Cookie: a=1\r\nCookie: b=2"),
        (b"curl/8", b"x" * plain_head.MAX_PLAIN_HEAD),
        (b"User-Agent: curl/8", b"\r\n".join(b"X-%d: y" % n for n in range(plain_head.MOST_FIELDS))),
        (b"Length: 12", b"Length: +12"),
        (b"Length: 12", b"Length: -12"),
        (b"Length: 12", b"Length: 1_2"),
        (b"Length: 12", b"Length: 0x12"),
        (b"Length: 12", b"Length: 1 2"),
        (b"Length: 12", b"Length: 12, 12"),
        (b"Length: 12", b"Length: \xb2"),
        (b"Length: 12", b"Length:"),
        (b"Length: 12", b"Length: 1234567890"),
    ],
)
def test_what_is_not_plain_is_left_to_gunicorn(old: bytes, new: bytes) -> None:
    assert old in USUAL
    assert read(USUAL.replace(old, new, 1), FAR) is None


@pytest.mark.parametrize("peer", [NEAR, FAR])
@pytest.mark.parametrize(
    "field", [b"X-Forwarded-Proto: https", b"X-Forwarded-Proto: HTTPS", b"X-Forwarded-Ssl: on"]
)
def test_a_proxy_beside_the_server_says_the_scheme_and_others_do_not(
    peer: tuple[str, int], field: bytes
) -> None:
    head = USUAL.replace(b"User-Agent: curl/8", field)
    environ = read(head, peer)
    assert environ is not None
    assert environ["wsgi.url_scheme"] == read_by_gunicorn(head, peer)[0]["wsgi.url_scheme"]


def test_two_fields_for_the_scheme_are_gunicorns_to_compare() -> None:
    head = USUAL.replace(b"User-Agent: curl/8", b"X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off")
    assert read(head, NEAR) is None
    with pytest.raises(ParseException):
        read_by_gunicorn(head, NEAR)


ODD = [b"", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\x00", b"\x0b", b"\x1f", b"\x7f", b"\x85", b"\xa0", b"\xdf"]
ODD += [b"\xff", b":", b",", b"_", b"#", b"?", b"//", b"%2f", b"%", b"%zz", b"%00", b"\\", b"+", b"-", b"0"]
NAMES = [b"Host", b"host", b"Content-Length", b"content-length", b"Content_Length", b"Transfer-Encoding"]
NAMES += [b"Content-Type", b"Connection", b"Expect", b"Upgrade", b"X-Forwarded-Proto", b"X-Forwarded-Ssl"]
NAMES += [b"Script-Name", b"SCRIPT_NAME", b"Cookie", b"X-Tenant", b"A", b"1", b"X.Y", b"", b"TE", b"Trailer"]
VALUES = [b"localhost", b"[::1]:80", b"12", b"012", b"+12", b"12,12", b"chunked", b"close", b"Keep-Alive"]
VALUES += [b"https", b"on", b"application/json", b"a=1; b=2", b"\xe4\xff", b"", b"x" * 9000, b"100-continue"]

spaces = st.sampled_from([b"", b" ", b"  ", b"\t"])
fields = st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from(NAMES),
    st.sampled_from([b":", b":", b":", b": ", b" :", b""]),
    spaces,
    st.sampled_from(VALUES) | st.binary(max_size=8),
    spaces,
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r\n "]),
)
lines = st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from([b"GET", b"POST", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"Get", b"G"]),
    st.sampled_from([b" ", b" ", b"  ", b"\t"]),
    st.sampled_from([b"/", b"/a/b", b"/a?b=c?d", b"/?", b"//a", b"*", b"http://localhost/a", b"/a%20b%2Fc"]),
    st.sampled_from([b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b" http/1.1", b""]),
    st.sampled_from([b"\r\n", b"\r\n", b"\n"]),
)
heads = st.builds(
    lambda line, host, rest: line + host + b"".join(rest) + b"\r\n",
    lines,
    st.sampled_from([b"Host: localhost\r\n", b""]),
    st.lists(fields, max_size=4),
)


@given(
    head=st.just(USUAL) | heads,
    at=st.integers(0, 300),
    cut=st.integers(0, 2),
    odd=st.sampled_from(ODD),
    peer=st.sampled_from([NEAR, FAR]),
)
@example(head=USUAL, at=0, cut=0, odd=b"", peer=FAR)
def test_a_head_is_read_as_gunicorn_reads_it_or_not_at_all(
    head: bytes, at: int, cut: int, odd: bytes, peer: tuple[str, int]
) -> None:
    sent = head[:at] + odd + head[at + cut :]
    # The loop gives a head up to its first empty line.
    sent = sent[: sent.find(b"\r\n\r\n") + 4] if b"\r\n\r\n" in sent else sent
    environ = read(sent, peer)
    if environ is None:
        return
    expected, ends, left = read_by_gunicorn(sent, peer)
    assert compared(environ) == compared(expected)
    assert (environ.get("HTTP_CONNECTION", "").lower() == "close") is ends
    assert left == BODY


def test_a_name_in_the_environment_leaves_every_head_to_gunicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPT_NAME", "/pipeweave")
    assert PlainEnviron.of(Config(), NEAR, SERVER) is None
