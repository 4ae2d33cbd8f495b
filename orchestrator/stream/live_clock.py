"""Tells pages that what they show may have changed, never what: they look again themselves.

A thread asks ten times a second whether an event was written, which reads one number and no table. Only then
it looks at the runs that somebody watches, and has the watched views computed again. It runs only while
somebody watches, and adds nothing to what writes events. docs/decisions/0048-look-again.md says why.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from pipeweave.errors import PipeWeaveError, TooManyStreams, Unavailable
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.stream import rights, shares
from pipeweave.orchestrator.stream.pace import Allowance
from pipeweave.orchestrator.stream.shares import Holder
from pipeweave.orchestrator.stream.watching import LiveSink, LiveWanted, TaggedView, WatchedView, Watcher

log = logging.getLogger(__name__)

# Seconds between two looks at the clock, and while PostgreSQL cannot be reached.
EVERY_S = 0.1
AWAY_S = 1.0
# The number of an event is drawn before the event can be read: seconds for which it may still appear.
LATE_S = 2.0
# Whoever hears of something fetches it: announcements of all watchers together are at most so many a second.
FETCHES_PER_S, FETCHES_AT_ONCE = 20, 5
# A view that has rested for long may be computed early, by so many seconds in all, so that a few changes that
# follow one another are each shown at once; but not sooner than this after the last time (s).
BURST_S, SOONEST_S = 3.0, 0.25
# Seconds between two signs of life to a watcher, and between two looks whether it may still watch.
PING_S = 3.0
CHECK_S = 2.0
# Seconds between two looks for watchers who have left.
TEND_S = 0.5
# The threads end when nobody has watched for so long (s).
IDLE_S = 5.0


_CLOCK = "SELECT last_value FROM event_seq"

_NEWEST = """
SELECT w.id, (SELECT e.seq FROM events AS e WHERE e.run_id = w.id ORDER BY e.seq DESC LIMIT 1) AS seq,
    EXISTS (SELECT FROM runs AS r WHERE r.id = w.id AND r.finished_at IS NOT NULL) AS is_over
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
        self._watchers: list[Watcher] = []
        self._threads: dict[str, threading.Thread] = {}
        self._stop = threading.Event()
        self._clock = -1
        # When the clock last moved (monotonic s).
        self._moved_at = 0.0
        self._views: dict[TaggedView, WatchedView] = {}
        self._watched: tuple[WatchedView, ...] | None = None  # None: somebody has come or left
        self._allowed = {each: Allowance(FETCHES_PER_S, FETCHES_AT_ONCE) for each in ("runs", "views")}
        # The number of the newest event of each watched run.
        self._newest: dict[UUID, int | None] = {}
        self._over: set[UUID] = set()
        self._watched_at = 0.0
        # Of these kinds somebody may not have been told everything yet.
        self._untold: set[str] = set()
        self._tend_at = self._check_at = 0.0

    @property
    def count(self) -> int:
        """How many watch."""
        with self._lock:
            return sum(each.sink.is_open for each in self._watchers)

    def check_room(self, holder: Holder) -> None:
        """Refuse one watcher more than allowed.

        Raises:
            TooManyStreams: there are as many as allowed, its token or tenant has its share of them, or this
                process stops.
        """
        if self._stop.is_set():
            raise TooManyStreams("this process stops")
        with self._lock:
            held = [each.sink.holder for each in self._watchers if each.sink.is_open]
        shares.check(held, holder, self._most)

    def watch(self, wanted: LiveWanted, sink: LiveSink) -> None:
        """Begin to serve a watcher."""
        now = time.monotonic()
        with self._lock:
            if self._stop.is_set():
                sink.end(None)
                return
            views = tuple(self._views.setdefault(each, WatchedView(each)) for each in wanted.views)
            self._watchers.append(Watcher(wanted.runs, views, sink, ping_at=now + PING_S))
            self._watched = None
            self._untold.update(self._allowed)
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
            left, self._watchers, self._watched = self._watchers, [], None
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
                self._untold.update(self._allowed)
                pause = AWAY_S
            if self._is_idle(name):
                return

    def _look_at_runs(self) -> float:
        watchers = self._tend()
        with self._database.following() as tx:
            self._read_clock(tx)
            if time.monotonic() - self._moved_at < LATE_S:
                self._look_anew(watchers, tx)
        newest = self._newest
        self._tell("runs", lambda each: each.news_of_runs(newest))
        self._ping(watchers)
        return EVERY_S

    def _look_anew(self, watchers: Sequence[Watcher], tx: Transaction) -> None:
        runs = {run for each in watchers for run in each.runs}
        rows = tx.execute(_NEWEST, {"runs": sorted(runs)}).all() if runs else ()
        newest: dict[UUID, int | None] = {row.id: row.seq for row in rows}
        over = {row.id for row in rows if row.is_over}
        # However long their pages would rest after many changes: whoever watches a run waits for its end.
        ended = {run for run in over - self._over if run in self._newest}
        self._over = over
        for each in watchers:
            if not ended.isdisjoint(each.runs):
                each.hurry()
        if newest != self._newest:
            self._newest = newest
            self._untold.add("runs")

    def _read_clock(self, tx: Transaction) -> None:
        clock = int(tx.execute(_CLOCK).scalar_one())
        if clock != self._clock:
            self._clock, self._moved_at = clock, time.monotonic()

    def _look_at_views(self) -> float:
        for each in self._views_of_all():
            if self._is_due(each):
                self._compute(each)
        self._tell("views", Watcher.news_of_views)
        return EVERY_S

    def _views_of_all(self) -> tuple[WatchedView, ...]:
        """What somebody watches: a look does not go through a hundred who watch ten views."""
        with self._lock:
            if self._watched is None:
                self._watched = tuple(dict.fromkeys(view for each in self._watchers for view in each.views))
                self._views = {each.view: each for each in self._watched}
            return self._watched

    def _is_due(self, watched: WatchedView) -> bool:
        now = time.monotonic()
        if watched.tag is None:
            return True
        # However long it rested meanwhile: once more after the last moment at which an event could appear.
        may_have_missed = watched.began_at < self._moved_at + LATE_S or now >= watched.by_time_at
        if watched.is_urgent:
            return now >= watched.began_at + SOONEST_S
        if self._clock != watched.clock:
            return now >= max(watched.began_at + SOONEST_S, watched.due_at - BURST_S)
        return may_have_missed and now >= watched.due_at

    def _compute(self, watched: WatchedView) -> None:
        view, began = watched.view, time.monotonic()
        watched.clock, watched.began_at, before = self._clock, began, watched.tag
        watched.is_urgent = False
        try:
            watched.tag = view.compute()
        except PipeWeaveError as error:
            # Whoever looks gets the same error.
            watched.tag = error.code
        if watched.tag != before:
            self._untold.add("views")
        watched.due_at = max(watched.due_at, began) + view.rest_s
        watched.by_time_at = began + view.every_s if view.every_s else math.inf

    def _tell(self, kind: str, news_of: Callable[[Watcher], Mapping[UUID | str, object]]) -> None:
        """Announce to as many as may fetch now; first to those who have not heard for longest."""
        if kind not in self._untold:
            return
        with self._lock:
            # Whoever comes afterwards, or hears nothing now, is told at the next look.
            self._untold.discard(kind)
            watchers = [each for each in self._watchers if each.sink.is_open]
        behind = [(each, news) for each in watchers if (news := news_of(each))]
        behind.sort(key=lambda pair: pair[0].told_at.get(kind, 0.0))
        now, most = time.monotonic(), self._allowed[kind].take(len(behind))
        for each, news in behind[:most]:
            each.tell(kind, news, now)
        if most < len(behind):
            self._untold.add(kind)

    def _tend(self) -> list[Watcher]:
        now = time.monotonic()
        with self._lock:
            if now >= self._tend_at:
                self._tend_at = now + TEND_S
                still = [each for each in self._watchers if each.sink.is_open]
                if len(still) < len(self._watchers):
                    self._watchers, self._watched = still, None
            if self._watchers:
                self._watched_at = now
            watchers = list(self._watchers)
        if now >= self._check_at:
            self._check_at = now + CHECK_S
            rights.end_without_right(each.sink for each in watchers)
        return watchers

    def _ping(self, watchers: list[Watcher]) -> None:
        """Tell those who heard nothing for long that nothing is new. Only a look that was answered knows it:
        while PostgreSQL is away there is silence, and pages say how long it lasts.
        """
        now = time.monotonic()
        for each in watchers:
            if now >= each.ping_at:
                each.ping_at = now + PING_S
                each.sink.ping()

    def _is_idle(self, name: str) -> bool:
        with self._lock:
            if self._watchers or time.monotonic() - self._watched_at < IDLE_S:
                return False
            del self._threads[name]
            return True
