"""A small HTTP server: reads whole requests, answers them in threads, and can cut a connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

from pipeweave.errors import PortInUse

MAX_BODY_BYTES = 110_000_000
"""The most that a request may have: an output of the largest size, and its frame."""

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """One request.

    Args:
        path: decoded, without the query.
        headers: their names in lower case.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None when it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Response:
    """An answer.

    Args:
        is_cut: close the connection instead of answering.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False


def json_response(status: int, document: Any) -> Response:
    """An answer with a JSON body."""
    return Response(status, orjson.dumps(document), {"Content-Type": "application/json"})


Answering = Callable[[WorkerRequest], Response]


class HttpServer:
    """Serves from the start until `stop`.

    Args:
        host: the address to listen on.
        port: 0 for any free port.
        answering: makes the answer to a request; called in a thread of its own for each connection.

    Raises:
        PortInUse: something else listens there.
    """

    def __init__(self, host: str, port: int, answering: Answering) -> None:
        try:
            self._server = _PlayedServer((host, port), _conversation(answering))
        except OSError as error:
            raise PortInUse(
                f"{host}:{port} cannot be listened on: {error.strerror}", hint="choose another --listen"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; open connections end with the process."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _PlayedServer(ThreadingHTTPServer):
    daemon_threads = True
    # A worker may send very many requests at once.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that goes away in the middle of a request is none of the kit's faults."""


def _conversation(answering: Answering) -> type[BaseHTTPRequestHandler]:
    """The class that reads the requests of one connection, with its way to the answers."""

    class Conversation(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        # Head and body of an answer are two packets; the second must not wait for the receipt of the first.
        disable_nagle_algorithm = True

        def respond(self) -> None:
            response = answering(_read(self))
            if response.is_cut:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = respond

        def log_message(self, *_: object) -> None:
            pass

    return Conversation


def _read(conversation: BaseHTTPRequestHandler) -> WorkerRequest:
    target = urlsplit(conversation.path)
    return WorkerRequest(
        conversation.command,
        unquote(target.path),
        dict(parse_qsl(target.query)),
        {name.lower(): value for name, value in conversation.headers.items()},
        _body(conversation),
    )


def _body(conversation: BaseHTTPRequestHandler) -> bytes:
    """The body; cut off beyond MAX_BODY_BYTES."""
    if "chunked" in (conversation.headers.get("Transfer-Encoding") or "").lower():
        return _chunks(conversation)
    length = conversation.headers.get("Content-Length") or "0"
    size = int(length) if length.isascii() and length.isdigit() else 0
    conversation.close_connection = conversation.close_connection or size > MAX_BODY_BYTES
    return conversation.rfile.read(min(size, MAX_BODY_BYTES))


def _chunks(conversation: BaseHTTPRequestHandler) -> bytes:
    body = bytearray()
    while size := int(conversation.rfile.readline(1_000).split(b";")[0].strip() or b"0", 16):
        body += conversation.rfile.read(min(size, MAX_BODY_BYTES - len(body)))
        conversation.rfile.readline(1_000)
        if len(body) >= MAX_BODY_BYTES:
            conversation.close_connection = True
            return bytes(body)
    while conversation.rfile.readline(1_000).strip():
        pass
    return bytes(body)
