"""Read the stream of changes: one connection, or one after the other from where the last one ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import orjson
import urllib3

from pipeweave.client.http import Transport, from_problem
from pipeweave.client.models import Document
from pipeweave.errors import PipeWeaveError, SlowReader, Unavailable

# The types of changes that end a run.
ENDS = ("run.completed", "run.failed", "run.partial", "run.cancelled")

# Without a sign of life for so long (s), a connection is given up; the server pings each 15 s.
SILENCE_S = 25.0
# The first event of a stream comes within this time (s), or the stream is not used.
LONGEST_BEGIN_S = 2.0
# How often (s) a reader looks whether it was closed.
_LOOK_S = 0.5
# What was written already comes within this time (s).
_AT_ONCE_S = 0.2
_PIECE = 65_536


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """A server-sent event: its name (`message` for a change), its id and its data."""

    name: str
    id: str | None
    data: Document


class StreamEnded(Exception):
    """The connection is at its end."""


class OpenStream:
    """One open stream.

    Args:
        query: the filters.
        cursor: the id of the last change that was seen; None begins with what comes now.

    Raises:
        PipeWeaveError: the API refused it.
        Unavailable: the API cannot be reached, or has no room for a stream.
    """

    def __init__(self, http: Transport, query: Mapping[str, Any], cursor: str | None = None) -> None:
        self._answer = http.stream("/api/stream", {**query, "cursor": cursor}, SILENCE_S)
        self._buffer = b""
        # Pieces as they come; empty: the end. What is buffered on the way here (TLS, parts of a body) cannot
        # be waited for, so a thread reads.
        self._pieces: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._read_all, name="pipeweave-stream", daemon=True).start()

    def next(self, timeout: float) -> ServerSentEvent | None:
        """The next event; None when none came within `timeout` seconds.

        Raises:
            StreamEnded: the connection broke, or was silent for too long.
        """
        until = time.monotonic() + timeout
        while (event := self._taken()) is None:
            try:
                piece = self._pieces.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                return None
            if not piece:
                self._pieces.put(b"")
                raise StreamEnded
            self._buffer += piece
        return event

    def close(self) -> None:
        """Close the connection; who waits for the next event gets the end."""
        self._pieces.put(b"")
        # Older versions of urllib3 have no `shutdown`: the thread then ends with the next ping.
        with suppress(AttributeError, OSError, ValueError):
            self._answer.shutdown()

    def _read_all(self) -> None:
        try:
            while piece := self._answer.read1(_PIECE):
                self._pieces.put(piece)
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            pass
        finally:
            self._pieces.put(b"")
            self._answer.close()

    def _taken(self) -> ServerSentEvent | None:
        while b"\n\n" in self._buffer:
            block, _, self._buffer = self._buffer.partition(b"\n\n")
            fields: dict[bytes, bytes] = {}
            for line in block.split(b"\n"):
                name, _, value = line.partition(b": ")
                fields[name] = value
            if b"data" in fields:
                id = fields.get(b"id")
                return ServerSentEvent(
                    fields.get(b"event", b"message").decode(),
                    None if id is None else id.decode(),
                    orjson.loads(fields[b"data"]),
                )
        return None


class Changes(Iterator[Document]):
    """Changes as they come; a connection that breaks is made again, and goes on where it was.

    Iterate over it, or call `close` to end that, from any thread. `cursor` is the id of the last change.

    Args:
        outage: seconds for which the API may be away.

    Raises:
        Unavailable: the API was away for longer.
        CursorExpired: what was missed meanwhile cannot be read any more: begin anew.
        PipeWeaveError: the API refused the stream, or ended it.
    """

    def __init__(
        self,
        http: Transport,
        *,
        run: str | None = None,
        pipeline: str | None = None,
        types: Sequence[str] | None = None,
        cursor: str | None = None,
        outage: float = 15.0,
        tree: bool = False,
    ) -> None:
        self._http = http
        self._query = {"run": run, "pipeline": pipeline, "types": types, "tree": "true" if tree else None}
        self.cursor = cursor
        self._outage = outage
        self._connection: OpenStream | None = None
        self._is_closed = False

    def __next__(self) -> Document:
        while (event := self.next(_LOOK_S)) is None or event.name != "message":
            if self._is_closed:
                raise StopIteration
        return event.data

    def begin(self) -> None:
        """Wait until the stream has begun: from now on no change is missed."""
        while self.next(_LOOK_S) is None and not self._is_closed:
            pass

    def waiting(self) -> Iterator[Document]:
        """The changes that come at once."""
        while (event := self.next(_AT_ONCE_S)) is not None:
            yield event.data

    def next(self, timeout: float) -> ServerSentEvent | None:
        """The next change, or the first event of a connection; None: none came within `timeout` seconds."""
        if self._is_closed:
            return None
        connection = self._connection or self._connected()
        try:
            event = connection.next(timeout)
        except StreamEnded:
            event = ServerSentEvent("bye", None, {})
        if event is None:
            return None
        self.cursor = event.id or self.cursor
        if event.name in ("bye", "error"):
            connection.close()
            self._connection = None
            if event.name == "error" and event.data.get("code") != SlowReader.code:
                raise from_problem(event.data, int(event.data.get("status", 500)))
            return None
        return event

    def close(self) -> None:
        """End the iteration."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> OpenStream:
        began = time.monotonic()
        while True:
            try:
                self._connection = OpenStream(self._http, self._query, self.cursor)
                return self._connection
            except Unavailable as error:
                if self._is_closed or time.monotonic() - began > self._outage:
                    raise
                if error.code == "TOO_MANY_STREAMS" and self.cursor is None:
                    raise
                time.sleep(_LOOK_S)


class RunSignal:
    """Wakes a wait for the end of a run as soon as the run changes. It is a hint: what counts is the next
    look at the run. Without a stream (an older API, or one with too many), it only sleeps.

    Args:
        types: the changes that wake it; None: all.
    """

    def __init__(self, http: Transport, run_id: str, types: Sequence[str] | None) -> None:
        self._http = http
        self._query = {"run": run_id, "types": types}
        self._connection: OpenStream | None = None
        self._has_tried = False

    def pause(self, least: float, most: float) -> None:
        """Sleep until the run has ended; after `least` seconds, until it has changed; `most` at most."""
        if not self._has_tried:
            self._has_tried = True
            if self._connect():
                # The run may have ended before the stream began: look again at once.
                return
        began = time.monotonic()
        has_changed = False
        while self._connection is not None:
            passed = time.monotonic() - began
            left = (least if has_changed else most) - passed
            if left <= 0:
                return
            event = self._next(left)
            if event is not None and event.data.get("type") in ENDS:
                return
            has_changed = has_changed or event is not None
        time.sleep(max(0.0, least - (time.monotonic() - began)))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> bool:
        try:
            self._connection = OpenStream(self._http, self._query)
            return self._next(LONGEST_BEGIN_S) is not None
        except PipeWeaveError:
            return False

    def _next(self, timeout: float) -> ServerSentEvent | None:
        """The next event; a connection that ended is not made again."""
        assert self._connection is not None
        try:
            event = self._connection.next(timeout)
        except StreamEnded:
            event = ServerSentEvent("bye", None, {})
        if event is not None and event.name in ("bye", "error"):
            self.close()
            return None
        return event
