"""The other system of calls that suspend themselves: it takes the URLs to which it is to report, and answers
polls like a server that comes and goes.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pipeweave.up.ports import LOOPBACK

# The variable that tells tasks where it is.
VARIABLE = "CHAOS_ELSEWHERE"
# How a poll that is not final may be answered.
WAYS = ("503", "cut", "running", "junk")
_CALLS, _POLLS = "/calls", "/polls/"


@dataclass(frozen=True, slots=True)
class Handed:
    """A call that has handed its work on.

    Args:
        path: of the URL to which the result is reported.
        token: the result.
        delay: how long the work takes (s).
        fails: whether it fails.
    """

    run_id: str
    task_run_id: str
    attempt: int
    path: str
    token: str
    delay: float
    fails: bool


class Elsewhere:
    """Takes calls and answers polls, until `close`.

    Args:
        handed: in the order in which they came.
        finals: by the token of a call: when its final answer was given out first (s since the epoch).
    """

    def __init__(self) -> None:
        self.handed: list[Handed] = []
        self.finals: dict[str, float] = {}
        self._polled: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = _Server((LOOPBACK, 0), _conversation(self))
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def take(self, call: dict[str, Any]) -> None:
        """Take a call in; one that was sent twice counts once."""
        handed = Handed(**{**call, "path": urlsplit(call["path"]).path})
        with self._lock:
            if handed not in self.handed:
                self.handed.append(handed)

    def answer_to(self, token: str, ways: list[str], final: str) -> str:
        """How a poll is answered: one way after the other, and in the end for good."""
        with self._lock:
            place = self._polled[token]
            self._polled[token] += 1
        return ways[place] if place < len(ways) else final

    def note_final(self, token: str) -> None:
        """Note that the final answer to a poll was given out."""
        with self._lock:
            self.finals.setdefault(token, time.time())


def url_of_call(base: str) -> str:
    """Where calls are handed on.

    Args:
        base: `Elsewhere.url`.
    """
    return f"{base}{_CALLS}"


def url_of_poll(base: str, token: str, ways: list[str], final: str) -> str:
    """What is polled for the result of a call: it is answered these ways, and then `final`."""
    return f"{base}{_POLLS}{token}?ways={','.join(ways)}&final={final}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The caller gave up, or was killed."""


def _conversation(elsewhere: Elsewhere) -> type[BaseHTTPRequestHandler]:
    class Conversation(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            elsewhere.take(json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0))))
            self._say(200, b"{}")

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            token, query = url.path.removeprefix(_POLLS), parse_qs(url.query)
            ways = [each for each in query.get("ways", [""])[0].split(",") if each]
            way = elsewhere.answer_to(token, ways, query["final"][0])
            if way == "cut":
                self._hang_up()
            elif way == "503":
                self._say(503, b"busy")
            elif way == "junk":
                self._say(200, b"<html>no JSON</html>")
            else:
                self._say(200, json.dumps({"status": way, "token": token}).encode())
                if way != "running":
                    elsewhere.note_final(token)

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _hang_up(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, *_: object) -> None:
            pass

    return Conversation
