"""Tells pages that what they show may have changed, never what: they look again themselves.

A thread asks four times a second whether an event was written, which reads one number and no table. Only then
it looks at the runs that somebody watches, and has the watched views computed again. It runs only while
somebody watches, and adds nothing to what writes events. docs/decisions/0048-look-again.md says why.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import PipeWeaveError, TooManyStreams, Unavailable
from pipeweave.orchestrator.store.database import Database, Transaction

log = logging.getLogger(__name__)

# Seconds between two looks at the clock, and while PostgreSQL cannot be reached.
EVERY_S = 0.25
AWAY_S = 1.0
# The number of an event is drawn before the event can be read: seconds for which it may still appear.
LATE_S = 2.0
# A view is computed at most once in this time (s), and takes at most a twentieth of the time.
VIEW_EVERY_S = 1.0
VIEW_SHARE = 20
# Whoever hears of something fetches it: announcements of all watchers together are at most so many a second.
FETCHES_PER_S = 25
# Seconds between two signs of life to a watcher, and between two looks whether it may still watch.
PING_S = 10.0
CHECK_S = 2.0
# The threads end when nobody has watched for so long (s).
IDLE_S = 5.0


class LiveSink(Protocol):
    """Where the announcements for one watcher go. Its methods return at once."""

    def begin(self, cursor: str) -> None:
        """The watcher is served from now on."""

    def change(self, cursor: str | None, content: bytes) -> None:
        """An announcement as JSON."""

    def ping(self) -> None:
        """Nothing new."""

    def end(self, error: PipeWeaveError | None) -> None:
        """Nothing follows. None: this process stops."""

    def check(self) -> object:
        """Raise the error for which the watcher may not watch any more."""

    @property
    def is_open(self) -> bool:
        """Whether the watcher is still there."""


class View(Protocol):
    """Something that is computed, and whose content has a tag that changes with it. Equal views are one."""

    @property
    def name(self) -> str:
        """As the watcher calls it."""

    @property
    def every_s(self) -> float:
        """Seconds after which it is computed also without an event; 0: never."""

    def compute(self) -> str:
        """Compute it, keep it for whoever asks, and return its tag."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LiveWanted:
    """What one watcher looks at. The runs are its tenant's: somebody has checked that."""

    runs: tuple[UUID, ...] = ()
    views: tuple[View, ...] = ()


@dataclass(slots=True, eq=False)
class _Watcher:
    wanted: LiveWanted
    sink: LiveSink
    # What it was told last, and when it was told of runs and of views (monotonic s).
    told: dict[Hashable, object] = field(default_factory=dict)
    told_at: dict[str, float] = field(default_factory=dict)
    ping_at: float = 0.0
    check_at: float = 0.0


@dataclass(slots=True)
class _Known:
    tag: str
    due_at: float
    # The clock when it was computed.
    clock: int
    by_time_at: float


_CLOCK = "SELECT last_value FROM event_seq"

_NEWEST = """
SELECT w.id, (SELECT e.seq FROM events AS e WHERE e.run_id = w.id ORDER BY e.seq DESC LIMIT 1) AS seq
FROM unnest(CAST(:runs AS uuid[])) AS w (id)
"""


class LiveClock:
    """The watchers of one process.

    Args:
        most: watchers at once.
    """

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._most = most
        self._lock = threading.Lock()
        self._watchers: list[_Watcher] = []
        self._threads: dict[str, threading.Thread] = {}
        self._stop = threading.Event()
        self._clock = -1
        # When the clock last moved (monotonic s).
        self._moved_at = 0.0
        self._views: dict[View, _Known] = {}
        # The number of the newest event of each watched run.
        self._newest: dict[UUID, int | None] = {}
        self._watched_at = 0.0

    @property
    def count(self) -> int:
        """How many watch."""
        with self._lock:
            return sum(each.sink.is_open for each in self._watchers)

    def check_room(self) -> None:
        """Refuse one watcher more than allowed.

        Raises:
            TooManyStreams: there are as many as allowed, or this process stops.
        """
        if self._stop.is_set() or self.count >= self._most:
            raise TooManyStreams(f"{self.count} pages watch, as many as this process serves")

    def watch(self, wanted: LiveWanted, sink: LiveSink) -> None:
        """Begin to serve a watcher."""
        now = time.monotonic()
        with self._lock:
            if self._stop.is_set():
                sink.end(None)
                return
            self._watchers.append(_Watcher(wanted, sink, ping_at=now + PING_S, check_at=now + CHECK_S))
            self._watched_at = now
            # What was known before may be old.
            self._moved_at = now
            for name, look in (("live-runs", self._look_at_runs), ("live-views", self._look_at_views)):
                if name not in self._threads:
                    thread = threading.Thread(target=self._run, args=(name, look), name=name, daemon=True)
                    self._threads[name] = thread
                    thread.start()
        sink.begin("0")

    def close(self) -> None:
        """End all, and serve no more."""
        self._stop.set()
        with self._lock:
            left, self._watchers = self._watchers, []
        for each in left:
            each.sink.end(None)

    # --- the threads --------------------------------------------------------------------------------------

    def _run(self, name: str, look: Callable[[], float]) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                pause = look()
            except Unavailable as error:
                log.info("live.waits", extra={"reason": error.detail})
                pause = AWAY_S
            except Exception:
                log.exception("live.failed")
                pause = AWAY_S
            if self._is_idle(name):
                return

    def _look_at_runs(self) -> float:
        watchers = self._tend()
        runs = sorted({run for each in watchers for run in each.wanted.runs})
        self._newest = {run: seq for run, seq in self._newest.items() if run in set(runs)}
        now = time.monotonic()
        with self._database.following() as tx:
            self._read_clock(tx)
            if runs and now - self._moved_at < LATE_S:
                self._newest = {row.id: row.seq for row in tx.execute(_NEWEST, {"runs": runs})}
        for each in watchers:
            known = {run: self._newest[run] for run in each.wanted.runs if run in self._newest}
            self._tell(each, "runs", known, len(watchers))
        return EVERY_S

    def _read_clock(self, tx: Transaction) -> None:
        clock = int(tx.execute(_CLOCK).scalar_one())
        if clock != self._clock:
            self._clock, self._moved_at = clock, time.monotonic()

    def _look_at_views(self) -> float:
        with self._lock:
            watchers = [each for each in self._watchers if each.sink.is_open]
        views = dict.fromkeys(view for each in watchers for view in each.wanted.views)
        self._views = {view: known for view, known in self._views.items() if view in views}
        for view in views:
            if self._is_due(view):
                self._compute(view)
        for each in watchers:
            known = {view: self._views[view].tag for view in each.wanted.views if view in self._views}
            self._tell(each, "views", known, len(watchers))
        return EVERY_S

    def _is_due(self, view: View) -> bool:
        known, now = self._views.get(view), time.monotonic()
        if known is None:
            return True
        has_moved = self._clock != known.clock or now - self._moved_at < LATE_S
        return now >= known.due_at and (has_moved or now >= known.by_time_at)

    def _compute(self, view: View) -> None:
        clock, began = self._clock, time.monotonic()
        try:
            tag = view.compute()
        except PipeWeaveError as error:
            # Whoever looks gets the same error.
            tag = error.code
        took = time.monotonic() - began
        due_at = began + max(VIEW_EVERY_S, VIEW_SHARE * took)
        by_time_at = began + view.every_s if view.every_s else math.inf
        self._views[view] = _Known(tag, due_at, clock, by_time_at)

    def _tell(self, watcher: _Watcher, kind: str, found: Mapping[Any, object], watchers: int) -> None:
        news = {key: value for key, value in found.items() if watcher.told.get(key, self) != value}
        now = time.monotonic()
        is_soon = now - watcher.told_at.get(kind, -math.inf) < watchers / FETCHES_PER_S - EVERY_S
        if news and not is_soon and watcher.sink.is_open:
            watcher.told |= news
            watcher.told_at[kind] = now
            watcher.sink.change(None, announcement(kind, news))

    def _tend(self) -> Sequence[_Watcher]:
        now = time.monotonic()
        with self._lock:
            self._watchers = [each for each in self._watchers if each.sink.is_open]
            if self._watchers:
                self._watched_at = now
            watchers = list(self._watchers)
        for each in watchers:
            if now >= each.ping_at:
                each.ping_at = now + PING_S
                each.sink.ping()
            if now >= each.check_at:
                each.check_at = now + CHECK_S
                _check(each.sink)
        return watchers

    def _is_idle(self, name: str) -> bool:
        with self._lock:
            if self._watchers or time.monotonic() - self._watched_at < IDLE_S:
                return False
            del self._threads[name]
            return True


def announcement(kind: str, news: Mapping[Any, object]) -> bytes:
    """The JSON that says what to look at again: `{"runs": {id: number}}` or `{"views": {name: tag}}`."""
    named = {
        ids.show(ids.RUN, key) if isinstance(key, UUID) else _name(key): value for key, value in news.items()
    }
    return orjson.dumps({kind: named})


def _name(view: object) -> str:
    return str(getattr(view, "name", view))


def _check(sink: LiveSink) -> None:
    try:
        sink.check()
    except Unavailable:
        pass
    except PipeWeaveError as error:
        sink.end(error)
