"""Watch the stream of the tenant from before the first run to after the last one, as a client that goes on
with the last id whenever its connection ends.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

import psycopg2

from chaos import records
from chaos.stack import TENANT, NotUp, Stack
from chaos.waiting import waited
from pipeweave.up.ports import LOOPBACK

# A ping comes every 15 s: a connection without anything for so long (s) is dead.
SILENT_S = 20.0
PAUSE_S = 0.1
READY_S = 30.0

# Run, sequence number, type, and task run of an event.
Seen = tuple[str, int, str, str | None]


@dataclass(slots=True)
class Watched:
    """What a client of the stream has seen.

    Args:
        events: in the order in which they came.
        connections: how often it connected.
        refused: answers after which a client could not go on.
        read: what was there when it began anew, because a standby had taken over: a client then reads the
            present state.
    """

    events: list[Seen] = field(default_factory=list)
    connections: int = 0
    refused: list[str] = field(default_factory=list)
    read: set[Seen] = field(default_factory=set)


class Watcher:
    """A client of `GET /api/stream`."""

    def __init__(self, up: Stack) -> None:
        self.up = up
        self.watched = Watched()
        self._last_id: str | None = None
        # The promotions after which it has begun anew.
        self._promotions = 0
        self._reads_present = False
        self._is_ready, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Connect, and wait until nothing is missed from now on.

        Raises:
            NotUp: there is no stream.
        """
        self._thread.start()
        if not self._is_ready.wait(READY_S):
            raise NotUp(f"the stream did not begin: {self.watched.refused}")

    def finish(self, seconds: float) -> None:
        """Wait this many seconds until as much was seen as there is, and leave."""
        waited(self._has_seen_all, seconds, 0.2)
        self._end.set()

    def _has_seen_all(self) -> bool:
        try:
            [(count,)] = self.up.rows("SELECT count(*) FROM events")
        except psycopg2.Error:
            return False
        return len(self.watched.read.union(self.watched.events)) >= int(count)

    def _run(self) -> None:
        while not self._end.is_set():
            # The API is away, or was killed; or PostgreSQL is.
            with suppress(OSError, http.client.HTTPException, psycopg2.Error):
                self._read()
            self._end.wait(PAUSE_S)

    def _read(self) -> None:
        """Read the stream until it ends."""
        headers = {"Authorization": f"Bearer {self.up.token}", "X-Tenant": TENANT}
        if self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        with closing(http.client.HTTPConnection(LOOPBACK, self.up.port, timeout=SILENT_S)) as connection:
            connection.request("GET", "/api/stream", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                self._note_refusal(answer.status, answer.read())
                return
            self.watched.connections += 1
            for kind, data in self._events(answer):
                if kind == "ready":
                    self._read_present()
                    self._is_ready.set()
                elif kind == "message":
                    change = json.loads(data)
                    self.watched.events.append(
                        (change["runId"], change["seq"], change["type"], change["taskRunId"])
                    )
                elif kind == "error" and b"CURSOR_EXPIRED" in data:
                    if self._begins_anew():
                        return
                    self.watched.refused.append(data.decode())

    def _begins_anew(self) -> bool:
        """Forget the cursor if a standby has taken over since it was given out."""
        if self._promotions == self.up.databases.promotions:
            return False
        self._promotions, self._last_id, self._reads_present = self.up.databases.promotions, None, True
        return True

    def _read_present(self) -> None:
        """Read what is there, if the stream has begun anew; what comes later is in the stream."""
        if self._reads_present:
            found = records.read_events(self.up)
            self.watched.read |= {(each.run_id, each.seq, each.type, each.task_run_id) for each in found}
            self._reads_present = False

    def _note_refusal(self, status: int, body: bytes) -> None:
        # While PostgreSQL is away, or too many streams are open, a client tries again.
        if status not in (429, 500, 503) and not (status == 410 and self._begins_anew()):
            self.watched.refused.append(f"{status} {body.decode(errors='replace')[:300]}")

    def _events(self, answer: http.client.HTTPResponse) -> Iterator[tuple[str, bytes]]:
        """Kind and data of each whole event; its id is kept when it was used."""
        id, kind, data = self._last_id, "message", b""
        while not self._end.is_set() and (line := answer.readline()):
            name, _, value = line.rstrip(b"\r\n").partition(b": ")
            if name == b"id":
                id = value.decode()
            elif name == b"event":
                kind = value.decode()
            elif name == b"data":
                data = value
            elif not line.strip() and data:
                yield kind, data
                self._last_id = id
                kind, data = "message", b""
