"""Sends a usual request in one piece, and reads a usual answer by one expression.

http.client sends head and body apart, and reads an answer with a parser for e-mail. Whatever is not plain is
left to it: a request that it might refuse, an answer in chunks, without a length, that is long, or whose head
comes in pieces. docs/decisions/0130-plain-exchanges.md says why.
"""

from __future__ import annotations

import io
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPResponse
from typing import Any

from urllib3.connection import HTTPConnection

# What is read at once (bytes): a plain answer is not longer.
PIECE = 16 * 1024

_PLAIN_REQUEST = re.compile(r"(?:GET|POST) [!-~]+ HTTP/1\.1\r\n(?:[A-Za-z0-9-]+: [\t -~]*\r\n)+\r\n")
# They say how the request is read, or take the place of what is said here.
_NOT_PLAIN = frozenset(("accept-encoding", "content-length", "expect", "transfer-encoding"))
# 204 and 304 have no body, whatever length they name.
_PLAIN_ANSWER = re.compile(
    rb"HTTP/1\.1 (?!204|304)([2-5][0-9][0-9])(?: [\t -~]*)?\r\n((?:[A-Za-z0-9-]+:[\t -~]*\r\n)+)\r\n"
)
_LENGTH = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ExchangedAnswer:
    """An answer, or its beginning.

    Args:
        headers: by their names in lower case; of several with one name, all, joined by commas.
        is_last: whether the connection cannot be used again.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    is_last: bool


def exchange(
    connection: HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    most: int,
) -> ExchangedAnswer:
    """Send a request over an open connection, and read its answer.

    Args:
        most: so many bytes of the answer are read.

    Raises:
        OSError, HTTPException, ValueError: there is no answer, or none that can be read.
    """
    sock: socket.socket = connection.sock
    request = _plain_request(method, path, body, headers)
    if request is None:
        connection.request(method, path, body=body, headers=headers)
        # It waits for an answer that somebody else reads.
        return replace(_any(sock, b"", method, most), is_last=True)
    sock.sendall(request)
    first = sock.recv(PIECE)
    return _plain(sock, first, most) or _any(sock, first, method, most)


def _plain_request(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes | None:
    """The bytes of a request; None for one that http.client is to judge."""
    names = {each.lower() for each in headers}
    if len(names) < len(headers) or not names.isdisjoint(_NOT_PLAIN):
        return None
    lines = [f"{method} {path} HTTP/1.1\r\nAccept-Encoding: identity\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    if "user-agent" not in names:
        lines.append("User-Agent: pipeweave\r\n")
    if body is not None or method == "POST":
        lines.append(f"Content-Length: {len(body or b'')}\r\n")
    lines.append("\r\n")
    head = "".join(lines)
    # A value with an end of line in it would be two fields.
    if _PLAIN_REQUEST.fullmatch(head) is None or head.count("\r\n") != len(lines) + 1:
        return None
    return head.encode("ascii") + (body or b"")


def _plain(sock: socket.socket, first: bytes, most: int) -> ExchangedAnswer | None:
    """A plain answer; None for one that is http.client's to read, of which nothing more was read then."""
    match = _PLAIN_ANSWER.match(first)
    if match is None:
        return None
    headers: dict[str, str] = {}
    for line in match[2].decode("ascii").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    named = headers.get("content-length", "")
    if _LENGTH.fullmatch(named) is None or "transfer-encoding" in headers:
        return None
    length, content = int(named), first[match.end() :]
    if length > min(most, PIECE):
        return None
    while len(content) < length:
        if not (piece := sock.recv(PIECE)):
            raise HTTPException("the answer is shorter than its length")
        content += piece
    # What comes behind the answer belongs to nothing that was asked.
    is_last = len(content) > length or "close" in headers.get("connection", "").lower()
    return ExchangedAnswer(int(match[1]), headers, content[:length], is_last)


def _any(sock: socket.socket, first: bytes, method: str, most: int) -> ExchangedAnswer:
    """Read what http.client reads."""
    answer = HTTPResponse(_BegunSocket(first, sock), method=method)  # type: ignore[arg-type]
    try:
        answer.begin()
        content = answer.read(most + 1)
        if answer.length and len(content) <= most:
            raise HTTPException("the answer is shorter than its length")
    finally:
        answer.close()
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return ExchangedAnswer(answer.status, headers, content, answer.will_close or len(content) > most)


class _BegunSocket(io.RawIOBase):
    """A socket of which some bytes were read already, as http.client asks for it."""

    def __init__(self, first: bytes, sock: socket.socket) -> None:
        self._first = first
        self._sock = sock

    def makefile(self, _mode: str) -> io.BufferedReader:
        """The whole answer, as a file."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._first:
            return self._sock.recv_into(buffer)
        piece, self._first = self._first[: len(buffer)], self._first[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)
