"""Answers with a stream of changes: server-sent events, or a WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from flask import Request, Response

from pipeweave.api.http import socket_requests, web_socket
from pipeweave.api.http.outlet import Outlet
from pipeweave.api.http.request_line import MOST_WAITING, Answer, RequestLine, Submit
from pipeweave.errors import PipeWeaveError, SlowReader, TooManyRequests, TooManyStreams
from pipeweave.orchestrator.stream import Holder, Told

EVENT_STREAM = "text/event-stream"
# The key in a request's environ of the function that takes its connection over: the server's loop then sends
# what is in an outlet. Other servers have none, and keep a thread for each stream.
TAKE_OVER = "pipeweave.take_over"
# The key of a function that lets a thread of the server call another one.
SUBMIT = "pipeweave.submit"
# The key of a set to which the sinks of streams in threads are added: the server ends them when it stops.
STREAMS = "pipeweave.streams"
# Streams of a server that keeps a thread for each.
MOST_IN_THREADS = 4
# How long (ms) a client waits before it connects again.
RETRY_MS = 1_000

_SLOW = SlowReader("the changes were not read in time", hint="connect again with the id of the last change")
_TOO_MANY = TooManyRequests(
    "too many requests of this connection wait for the one before them",
    hint=f"let at most {MOST_WAITING} be without an answer, and send it again",
)
_PING = b": ping\n\n"
_BYE = b"event: bye\ndata: {}\n\n"


class EventSink:
    """Writes server-sent events to an outlet.

    Args:
        check: raises an error when the watcher has lost the right to watch.
        holder: whose it is.
    """

    def __init__(self, check: Callable[[], object], holder: Holder) -> None:
        self.outlet = Outlet()
        self.check = check
        self.holder = holder

    @property
    def has_room(self) -> bool:
        return self.outlet.has_room

    @property
    def is_open(self) -> bool:
        return self.outlet.is_open

    def begin(self, cursor: str) -> None:
        self._put(b"retry: %d\nid: %s\nevent: ready\ndata: {}\n\n" % (RETRY_MS, cursor.encode()))

    def change(self, cursor: str | None, content: bytes) -> None:
        # Without an id, the last one stays that of the client.
        self._put(_event(cursor, content))

    def tell(self, portion: Told) -> None:
        if not self.outlet.put(portion.shown(_event)):
            self.end(_SLOW)

    def ping(self) -> None:
        self._put(_PING)

    def end(self, error: PipeWeaveError | None) -> None:
        self.outlet.end(_BYE if error is None else _error(error), instead=isinstance(error, SlowReader))

    def _put(self, part: bytes) -> None:
        if not self.outlet.put(part):
            self.end(_SLOW)


def _event(cursor: str | None, content: bytes) -> bytes:
    id = b"" if cursor is None else b"id: %s\n" % cursor.encode()
    return b"%sdata: %s\n\n" % (id, content)


def _error(error: PipeWeaveError) -> bytes:
    return b"event: error\ndata: %s\n\n" % orjson.dumps(error.to_problem(), default=str)


class SocketSink:
    """Writes the messages of a WebSocket to an outlet, and has those that come answered.

    Args:
        check, holder: as of EventSink.
        answer: answers a message.
        submit: lets a thread do so.
    """

    def __init__(
        self, check: Callable[[], object], holder: Holder, answer: Answer, submit: Submit | None
    ) -> None:
        self.outlet = Outlet(web_socket.Receiver(self._add).take, self._go_on)
        self._line = RequestLine(lambda message: _text(answer(message)), submit, self.outlet)
        self.check = check
        self.holder = holder

    @property
    def has_room(self) -> bool:
        return self.outlet.has_room

    @property
    def is_open(self) -> bool:
        return self.outlet.is_open

    def begin(self, cursor: str) -> None:
        self._put(b'{"event":"ready","id":"%s"}' % cursor.encode())

    def change(self, cursor: str | None, content: bytes) -> None:
        if not self.outlet.put(_message(cursor, content)):
            self.end(_SLOW)

    def tell(self, portion: Told) -> None:
        if not self.outlet.put(portion.shown(_message)):
            self.end(_SLOW)

    def ping(self) -> None:
        self.outlet.put(web_socket.frame(web_socket.PING, b""))

    def end(self, error: PipeWeaveError | None) -> None:
        if isinstance(error, SlowReader):
            self.outlet.end(_refusal(error, web_socket.TRY_AGAIN_LATER), instead=True)
            return
        last = web_socket.close(web_socket.GOING_AWAY, "the server stops")
        if error is not None:
            last = _refusal(error, web_socket.POLICY_VIOLATION)
        # What is under way is answered first: so whoever has no answer knows that nothing was done.
        self._line.stop(lambda: self.outlet.end(last))

    def _put(self, message: bytes) -> None:
        if not self.outlet.put(_text(message)):
            self.end(_SLOW)

    def _add(self, message: bytes) -> None:
        if not self._line.add(message):
            self._put(socket_requests.refusal(message, _TOO_MANY))

    def _go_on(self) -> None:
        self._line.go_on()


def _message(cursor: str | None, content: bytes) -> bytes:
    id = b"null" if cursor is None else b'"%s"' % cursor.encode()
    return _text(b'{"event":"change","id":%s,"change":%s}' % (id, content))


def _text(message: bytes) -> bytes:
    return web_socket.frame(web_socket.TEXT, message)


def _refusal(error: PipeWeaveError, status: int) -> bytes:
    """A message with the problem document, and the close with its code."""
    content = orjson.dumps({"event": "error", "error": error.to_problem()}, default=str)
    return web_socket.frame(web_socket.TEXT, content) + web_socket.close(status, error.code)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as the answer to a request.

    Args:
        begin: begins to serve the sink.
    """

    sink: EventSink | SocketSink
    begin: Callable[[], None]


_in_threads: set[Outlet] = set()


def answered(request: Request, stream: Stream) -> Response:
    """The answer whose body is the stream; or the upgrade to a WebSocket.

    Raises:
        TooManyStreams: this server keeps a thread for each stream, and has none left.
    """
    response = _upgrade(request) if isinstance(stream.sink, SocketSink) else _events()
    if request.method == "HEAD":
        return response
    take_over = request.environ.get(TAKE_OVER)
    if take_over is not None:
        take_over(stream.sink.outlet)
    else:
        del response.headers["Content-Length"]
        response.response = _in_a_thread(request, stream.sink)
    stream.begin()
    return response


def _events() -> Response:
    # A proxy must hand on what comes, and keep nothing back.
    headers = {"Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no"}
    return Response(b"", 200, headers, content_type=EVENT_STREAM)


def _upgrade(request: Request) -> Response:
    headers = web_socket.upgrade(request.headers)
    response = Response(b"", 101, headers)
    del response.headers["Content-Type"]
    return response


def _in_a_thread(request: Request, sink: EventSink | SocketSink) -> Iterable[Any]:
    for each in [each for each in _in_threads if not each.is_open]:
        _in_threads.discard(each)
    has_threads = bool(request.environ.get("wsgi.multithread"))
    if isinstance(sink, SocketSink) or not has_threads or len(_in_threads) >= MOST_IN_THREADS:
        raise TooManyStreams(
            "this server has no thread left for a stream",
            hint="`pipeweave api` serves many; elsewhere, poll `GET /api/runs/{id}`",
        )
    _in_threads.add(sink.outlet)
    request.environ.get(STREAMS, set()).add(sink)
    return sink.outlet.parts()
