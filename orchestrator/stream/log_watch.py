"""Tells those who watch a run that what its task runs log has grown.

Logs are objects in storage, which tells nobody of a change: one thread asks for their sizes, only
while somebody watches logs. It is not the thread that reads the event log, so a slow storage holds up no
other change. A size says all that the ones before it said: nothing is lost when one is left out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from pipeweave.errors import PipeWeaveError, Unavailable
from pipeweave.orchestrator.kept.stored_logs import SETTLED
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.stream import stored_logs
from pipeweave.orchestrator.stream.changes import WantedChanges
from pipeweave.orchestrator.stream.stored_logs import Key, StoredLog
from pipeweave.storage import Backends

log = logging.getLogger(__name__)

# Seconds between two looks. The pause is at least so many times as long as the look took, up to the longest
# pause (s).
EVERY_S = 1.0
PAUSE_PER_LOOK = 3
LONGEST_PAUSE_S = 10.0
# Logs of a run that are kept in mind while their storage is away, or a watcher has no room; of more, the
# oldest are dropped.
MOST_KEPT = 200
# The warning that a storage or the database is away is repeated at most this often (s).
WARN_EVERY_S = 60.0


class LogSink(Protocol):
    """Where the changes of one watcher go. Its methods return at once."""

    def change(self, cursor: str | None, content: bytes) -> None:
        """A change as JSON. None: it has no cursor."""

    @property
    def has_room(self) -> bool:
        """Whether it takes another page of changes."""

    @property
    def is_open(self) -> bool:
        """Whether the watcher is still there."""


@dataclass(slots=True, eq=False)
class _LogWatcher:
    wanted: WantedChanges
    sink: LogSink
    # The last size that was sent, of each log.
    sent: dict[Key, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Seen:
    """A log, and what is known of it."""

    log: StoredLog
    # When its task run was last among those that run or have just ended.
    live_at: float
    size: int = 0
    # When its size was asked for, and when that was by PostgreSQL's clock.
    asked_at: float = 0.0
    at: datetime | None = None

    @property
    def is_settled(self) -> bool:
        """Whether its size was asked for when nothing could be added to it any more."""
        return self.asked_at >= self.live_at + SETTLED.total_seconds()


@dataclass(slots=True, eq=False)
class _Run:
    """A run that is watched, by all its watchers."""

    seen: dict[Key, _Seen] = field(default_factory=dict)
    # When it was last looked at, by PostgreSQL's clock.
    looked_at: datetime | None = None


class LogWatch:
    """The logs that are watched in one process.

    Args:
        secret_key: the deployment's.
    """

    def __init__(self, database: Database, backends: Backends, secret_key: str | None) -> None:
        self._database = database
        self._backends = backends
        self._secret_key = secret_key
        self._lock = threading.Lock()
        self._watchers: list[_LogWatcher] = []
        self._runs: dict[tuple[str, UUID], _Run] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._warn_at = 0.0

    def watch(self, wanted: WantedChanges, sink: LogSink) -> None:
        """Begin to tell a watcher of the logs of its run, until its sink is closed."""
        with self._lock:
            self._watchers.append(_LogWatcher(wanted, sink))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="stream of logs", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Tell nobody of anything any more."""
        self._stop.set()

    # --- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            began = time.monotonic()
            watchers = self._open_watchers()
            if not watchers:
                return
            # One that does not answer may take seconds each time: it is left out of the rest of the look.
            away: set[str] = set()
            for key, of_run in watchers.items():
                self._look(key, of_run, away)
            took = time.monotonic() - began
            pause = max(EVERY_S, min(PAUSE_PER_LOOK * took, LONGEST_PAUSE_S))

    def _open_watchers(self) -> dict[tuple[str, UUID], list[_LogWatcher]]:
        """Those who still watch, by their run; the thread ends when there are none."""
        by_run: dict[tuple[str, UUID], list[_LogWatcher]] = {}
        with self._lock:
            self._watchers = [each for each in self._watchers if each.sink.is_open]
            if not self._watchers:
                self._thread = None
            for each in self._watchers:
                if each.wanted.run_id is not None:
                    by_run.setdefault((each.wanted.tenant, each.wanted.run_id), []).append(each)
            self._runs = {key: self._runs.get(key) or _Run() for key in by_run}
        return by_run

    def _look(self, key: tuple[str, UUID], watchers: Sequence[_LogWatcher], away: set[str]) -> None:
        """Look at the logs of one run, for all who watch it."""
        run = self._runs[key]
        try:
            now = self._find(key, run)
            self._ask_sizes(run, now, away)
            for each in watchers:
                _send(each, run.seen.values())
            _forget(run, watchers)
        except Unavailable as error:
            self._warn(error.detail)
        except Exception as error:
            # It is looked at again; nobody else's changes depend on it.
            self._warn(repr(error))

    def _find(self, key: tuple[str, UUID], run: _Run) -> datetime:
        with self._database.reading() as tx:
            since = (run.looked_at or tx.now) - SETTLED
            logs = stored_logs.live(tx, *key, since, self._backends, self._secret_key)
            run.looked_at = tx.now
        live_at = time.monotonic()
        for each in logs:
            known = run.seen.setdefault(each.key, _Seen(each, live_at))
            known.log, known.live_at = each, live_at
        return run.looked_at

    def _ask_sizes(self, run: _Run, now: datetime, away: set[str]) -> None:
        for each in run.seen.values():
            if each.is_settled or each.log.backend in away or self._stop.is_set():
                continue
            asked_at = time.monotonic()
            try:
                size = stored_logs.size_of(self._backends, each.log)
            except Unavailable as error:
                away.add(each.log.backend)
                self._warn(error.detail)
            except PipeWeaveError as error:
                self._warn(error.detail)
            else:
                each.size, each.asked_at, each.at = size, asked_at, now

    def _warn(self, reason: str) -> None:
        if (now := time.monotonic()) < self._warn_at:
            return
        self._warn_at = now + WARN_EVERY_S
        log.warning("stream.logs_wait", extra={"reason": reason})


def _send(watcher: _LogWatcher, logs: Iterable[_Seen]) -> None:
    pipeline = watcher.wanted.pipeline
    for each in logs:
        key = each.log.key
        if each.at is None or each.size == watcher.sent.get(key, 0):
            continue
        if pipeline is None or each.log.pipeline_id == pipeline:
            if not watcher.sink.has_room:
                return
            watcher.sink.change(None, stored_logs.content(each.log, each.at, each.size))
        watcher.sent[key] = each.size


def _forget(run: _Run, watchers: Sequence[_LogWatcher]) -> None:
    """Forget the logs to which nothing is added any more, and of which everybody was told."""
    for key, each in list(run.seen.items()):
        has_told = all(not one.sink.is_open or one.sent.get(key, 0) == each.size for one in watchers)
        if (each.is_settled and has_told) or len(run.seen) > MOST_KEPT:
            del run.seen[key]
            for one in watchers:
                one.sent.pop(key, None)
