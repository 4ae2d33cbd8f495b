"""One client's connection, with what it has sent of its next request."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Any

from gunicorn.config import Config
from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine
from gunicorn.workers.gthread import TConn

from pipeweave.api.server import plain_head
from pipeweave.api.server.client_socket import ClientSocket
from pipeweave.api.server.deadlines import BODY_S, MAX_HEAD, MAX_REQUEST_LINE, MAX_TAKEN_IN, SMALL_BODY
from pipeweave.api.server.plain_environ import PlainEnviron
from pipeweave.size_limits import MAX_BODY_BYTES

_END = b"\r\n\r\n"
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:", re.IGNORECASE)
# Others are uploads: they may take long, and be too large for memory.
_JSON = re.compile(rb"\r\ncontent-type:[ \t]*application/json\b", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
# A target may name its host, too.
_READS = re.compile(rb"(?:\r\n)?(?:GET|HEAD) (?:(?i:https?)://[^/? ]*)?([^? ]*)[? ]")


class ClientConnection(TConn):
    """A connection and what the loop knows of it.

    Attributes:
        arrived: what has arrived of the next request and was not given to a thread yet.
        stage: `head` (a request arrives), `answer` (the client takes its answer), `idle`, or `end` (the
            client closes); what it was last, while a thread answers.
        since: when the stage began, on `time.monotonic()`.
        until: when the loop gives up waiting.
        is_kept: whether the client may send a further request after this one.
        drained: bytes that were dropped in the stage `end`.
        is_page: whether its request is with the threads for pages.
        watched_for: the events of its socket for which the loop waits while it serves a stream.
        environ: of the request that a thread answers, if its head is plain; None: gunicorn parses it.
    """

    sock: ClientSocket
    # Bytes of larger bodies that are taken in for all connections of this process.
    taken_in = 0
    _counting = threading.Lock()

    def __init__(self, config: Config, accepted: socket.socket, client: Any, server: Any) -> None:
        super().__init__(config, ClientSocket.of(accepted), client, server)
        self.arrived = bytearray()
        self.stage = ""
        self.since = self.until = 0.0
        self.is_kept = False
        self.drained = 0
        self.is_page = False
        self.watched_for = 0
        self.environ: dict[str, Any] | None = None
        self._plain: dict[str, str] | None = None
        self._common = PlainEnviron.of(config, client, server)
        self._head_size = self._wanted = 0
        self._reserved = 0

    def begin(self, stage: str, seconds: float) -> None:
        """Begin a stage in which the loop waits for the client for so many seconds."""
        self.stage, self.since = stage, time.monotonic()
        self.until = self.since + seconds

    def add(self, data: bytes) -> None:
        """Keep what the client has sent of its next request."""
        start = max(0, len(self.arrived) - len(_END) + 1)
        self.arrived += data
        if not self._wanted:
            self._wanted = self._bytes_wanted(start)

    @property
    def is_request(self) -> bool:
        """Whether a thread can begin with what has arrived."""
        return 0 < self._wanted <= len(self.arrived)

    def excess(self) -> LimitRequestLine | LimitRequestHeaders | None:
        """The error of a head that is too long without being at its end."""
        if self._wanted:
            return None
        if len(self.arrived) > MAX_REQUEST_LINE and self.arrived.find(b"\r\n", 2) < 0:
            return LimitRequestLine(len(self.arrived), MAX_REQUEST_LINE)
        return LimitRequestHeaders("the head is too large") if len(self.arrived) > MAX_HEAD else None

    @property
    def read_path(self) -> str | None:
        """The path of a request that only reads, as it was sent; None for others."""
        if self._plain is not None:
            reads = self._plain["REQUEST_METHOD"] == "GET"
            return self._plain["RAW_URI"].partition("?")[0] if reads else None
        match = _READS.match(self.arrived)
        return None if match is None else match[1].decode("latin-1")

    def hand_over(self) -> None:
        """Give what has arrived to the thread that answers it: a request, or what gunicorn is to parse."""
        if self._plain is not None and self._common is not None:
            body = bytes(self.arrived[self._head_size : self._wanted])
            self.environ = self._common.of_request(self._plain, body, self.sock)
            del self.arrived[: self._wanted]
        else:
            self.init()
            assert self.parser is not None
            self.parser.unreader.unread(bytes(self.arrived))
            self.arrived.clear()
        self._plain = None
        self._wanted = 0
        self._give_back()

    def close(self, graceful: bool = False) -> None:
        """Close the connection."""
        self._give_back()
        super().close(graceful)

    def take_back(self) -> bytes:
        """What has been read of a further request."""
        read = bytes(self.arrived)
        self.arrived.clear()
        return read if self.parser is None else self.parser.unreader.take_buffered() + read

    def _bytes_wanted(self, start: int) -> int:
        """How many bytes a thread should have to begin with; 0 while the head is not at its end.

        Where the head is not plain, this only decides when a thread begins: gunicorn parses what it says.
        """
        end = self.arrived.find(_END, start)
        if end < 0:
            # gunicorn refuses a head with a bare line feed as it is.
            return 1 if _BARE_LINE_FEED.search(self.arrived, start) else 0
        head = bytes(self.arrived[: end + len(_END)])
        self._head_size = len(head)
        if self._common is not None:
            self._plain = plain_head.read(head, self._common.scheme_keys)
        if self._plain is not None:
            length, is_known = int(self._plain.get("CONTENT_LENGTH", 0)), True
        else:
            match = _LENGTH.search(head)
            length = 0 if match is None else int(match[1])
            is_known = _EXPECT.search(head) is None and _CHUNKED.search(head) is None
        is_json = length <= SMALL_BODY or _JSON.search(head) is not None
        is_taken_in = is_known and is_json and self._has_room(length)
        self.sock.awaits_body = not is_taken_in
        if not is_taken_in:
            # gunicorn reads bodies that are yet to come.
            self._plain = None
        return len(head) + length if is_taken_in else len(head)

    def _has_room(self, length: int) -> bool:
        """Whether the loop takes in a body of this length, so that no thread waits for it."""
        if length <= SMALL_BODY:
            return True
        with self._counting:
            if length > MAX_BODY_BYTES or ClientConnection.taken_in + length > MAX_TAKEN_IN:
                return False
            self._reserved = length
            ClientConnection.taken_in += length
        self.until = max(self.until, self.since + BODY_S)
        return True

    def _give_back(self) -> None:
        if self._reserved:
            with self._counting:
                ClientConnection.taken_in -= self._reserved
            self._reserved = 0
