"""Hands what is new to all who watch in this process: one thread reads the event log for all of them.

A watcher begins at the place where the thread is, or at a cursor. From a cursor it is read pages of its own,
one per turn, until it has seen what the thread has seen; from then on it is served with all others. The
thread runs only while somebody watches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from pipeweave.errors import CursorExpired, PipeWeaveError, SlowReader, TooManyStreams, Unavailable
from pipeweave.orchestrator.feed import feed, place_text
from pipeweave.orchestrator.feed.feed import Batch
from pipeweave.orchestrator.feed.place import Place
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.stream import changes, rights, shares
from pipeweave.orchestrator.stream.changes import WantedChanges
from pipeweave.orchestrator.stream.log_watch import LogWatch
from pipeweave.orchestrator.stream.shares import Holder
from pipeweave.orchestrator.stream.told import Change, Told, portions

log = logging.getLogger(__name__)

# Seconds between two polls of the event log.
EVERY_S = 0.015
# A poll must not slow those who work: the pause is at least this multiple of the time that the poll took, up
# to the longest pause (s).
PAUSE_PER_LOOK = 15
LONGEST_PAUSE_S = 0.1
# Seconds between two polls while PostgreSQL cannot be reached.
AWAY_S = 0.25
# Seconds between two looks for watchers who have left.
TEND_S = 0.5
# Seconds between two signs of life to a watcher, and between two looks whether it may still watch.
PING_S = 15.0
CHECK_S = 2.0
# Seconds for which a watcher may have no room for what is new.
SLOW_S = 10.0
_GO_ON = "connect again with the id of the last change that came"
# Events that one watcher is read in one turn while it catches up.
PAGE = 250
# The thread ends when nobody has watched for so long (s).
IDLE_S = 5.0


class Sink(Protocol):
    """Where the changes of one watcher go. Its methods return at once, whatever the watcher does."""

    def begin(self, cursor: str) -> None:
        """From now on changes after this cursor follow."""

    def change(self, cursor: str | None, content: bytes) -> None:
        """A change as JSON, and the cursor behind it; None: the cursor stays as it is."""

    def tell(self, portion: Told) -> None:
        """Changes that others are told, too."""

    def ping(self) -> None:
        """Nothing new; the watcher shall know that the stream lives."""

    def end(self, error: PipeWeaveError | None) -> None:
        """Nothing follows. None: this process stops."""

    @property
    def check(self) -> Callable[[], object]:
        """Raises an error when the watcher has lost the right to watch. Equal ones are one right."""

    @property
    def holder(self) -> Holder:
        """The holder that the stream counts for."""

    @property
    def has_room(self) -> bool:
        """Whether it takes another page of changes."""

    @property
    def is_open(self) -> bool:
        """Whether the watcher is still there."""


@dataclass(slots=True, eq=False)
class _HubWatcher:
    wanted: WantedChanges
    sink: Sink
    # Where it goes on by itself; None: it is served with the others.
    place: Place | None
    # It had seen all there was, at its last page.
    is_near: bool = False
    # When it last had room, as long as it goes on by itself.
    room_at: float = 0.0
    ping_at: float = 0.0


class Hub:
    """The watchers of one process.

    Args:
        most: watchers at once.
        logs: tells those who want to know that logs have grown.
    """

    def __init__(self, database: Database, most: int, logs: LogWatch | None = None) -> None:
        self._database = database
        self._logs = logs
        self._most = most
        self._lock = threading.Lock()
        self._new: list[_HubWatcher] = []
        self._watchers: list[_HubWatcher] = []
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._place: Place | None = None
        self._identity = ""
        self._idle_since = 0.0
        # The database of the place; `_identity` is empty while another one may answer next.
        self._known = ""
        # As long as it is that of the database, nothing is new; empty: there may be more already.
        self._mark = ""
        # The last look found nothing.
        self._is_quiet = False
        self._tend_at = self._check_at = 0.0

    @property
    def count(self) -> int:
        """How many watch. Who has left does not count, also before the thread forgets it."""
        with self._lock:
            return sum(each.sink.is_open for each in (*self._new, *self._watchers))

    def check_room(self, holder: Holder) -> None:
        """Refuse one watcher more than allowed.

        Raises:
            TooManyStreams: there are as many as allowed, its token or tenant has its share of them, or this
                process stops.
        """
        if self._stop.is_set():
            raise TooManyStreams("this process stops")
        with self._lock:
            held = [each.sink.holder for each in (*self._new, *self._watchers) if each.sink.is_open]
        shares.check(held, holder, self._most)

    def watch(self, wanted: WantedChanges, sink: Sink, place: Place | None = None) -> None:
        """Begin to serve a watcher.

        Args:
            place: what came after it is sent first; None: only what comes now.
        """
        with self._lock:
            if self._stop.is_set():
                sink.end(None)
                return
            now = time.monotonic()
            self._new.append(_HubWatcher(wanted, sink, place, False, now, now + PING_S))
            if self._thread is None:
                self._place, self._mark = None, ""
                self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End all streams, and serve no more."""
        self._stop.set()
        if self._logs is not None:
            self._logs.close()
        with self._lock:
            left = [*self._watchers, *self._new]
            self._new.clear()
        for each in left:
            each.sink.end(None)

    # --- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                pause = self._turn()
            except Unavailable as error:
                log.info("stream.waits", extra={"reason": error.detail})
                # It may be another server that answers next.
                self._identity, self._mark, pause = "", "", AWAY_S
            except CursorExpired as error:
                self._end_all(error)
                self._place, self._mark, pause = None, "", AWAY_S
            except Exception:
                log.exception("stream.failed")
                pause = AWAY_S
            self._tend()
            if self._is_idle():
                return

    def _turn(self) -> float:
        """Read what is new, and hand it out; how long (s) to pause until the next turn."""
        began = time.monotonic()
        with self._database.following() as tx:
            self._know_database(tx)
            if self._place is None:
                self._place = feed.latest(tx)
            batch = self._read(tx, self._place)
            self._place = batch.place
            self._hand_out(batch, [each for each in self._watchers if each.place is None])
            self._admit_new(batch.place)
            for each in self._watchers:
                if each.place is not None:
                    self._catch_up(tx, each, each.place, batch)
        took = time.monotonic() - began
        return 0.0 if batch.more else max(EVERY_S, min(PAUSE_PER_LOOK * took, LONGEST_PAUSE_S))

    def _read(self, tx: Transaction, place: Place) -> Batch:
        """What is new; while nothing is, that costs next to nothing."""
        if self._is_quiet:
            # Taken before the events are read: what ends in between is looked for once more.
            mark = feed.mark(tx)
            if mark == self._mark:
                return Batch([], place, place, more=False)
            self._mark = mark
        batch = feed.read_after(tx, place)
        self._is_quiet = not batch.events and not batch.more
        if not self._is_quiet:
            self._mark = ""
        return batch

    def _know_database(self, tx: Transaction) -> None:
        if self._identity:
            return
        identity = feed.identity(tx)
        if self._place is not None and self._known != identity:
            self._known = self._identity = identity
            raise CursorExpired("another database has taken over")
        self._known = self._identity = identity

    def _admit_new(self, place: Place) -> None:
        if not self._new:
            return
        with self._lock:
            new, self._new = self._new, []
            self._watchers += new
        for each in new:
            # Those who want the same are served together.
            each.wanted = next(one.wanted for one in self._watchers if one.wanted == each.wanted)
            each.sink.begin(self._cursor(each.place or place, each))
            if self._logs is not None and each.wanted.has_logs:
                self._logs.watch(each.wanted, each.sink)

    def _hand_out(self, batch: Batch, watchers: Iterable[_HubWatcher]) -> bool:
        """Give the events of a batch to those who want them; who has no room goes on by itself, from the
        first event that it did not take. Returns whether all had room.
        """
        all_had_room = True
        for group, wanted in self._wanted_of(batch, watchers):
            left = group
            for first, portion in portions(wanted):
                full = [each for each in left if not each.sink.has_room]
                for each in full:
                    each.place, each.is_near = batch.place_after(first - 1), False
                    each.room_at = time.monotonic()
                    all_had_room = False
                left = [each for each in left if each not in full] if full else left
                for each in left:
                    each.sink.tell(portion)
        return all_had_room

    def _wanted_of(
        self, batch: Batch, watchers: Iterable[_HubWatcher]
    ) -> list[tuple[list[_HubWatcher], list[tuple[int, Change]]]]:
        """Those who want the same, and what of the batch that is."""
        if not batch.events:
            return []
        groups: dict[int, tuple[list[_HubWatcher], list[tuple[int, Change]]]] = {}
        for each in watchers:
            groups.setdefault(id(each.wanted), ([], []))[0].append(each)
        # Most watch one run: of a crowd of them, an event concerns few.
        of_run: dict[UUID | None, list[tuple[list[_HubWatcher], list[tuple[int, Change]]]]] = {}
        for group in groups.values():
            of_run.setdefault(group[0][0].wanted.run_id, []).append(group)
        for index, event in enumerate(batch.events):
            shown: dict[bool, Change] = {}
            for run_id in {event.run_id, event.root_run_id, None}:
                for members, wanted in of_run.get(run_id, ()):
                    as_state = members[0].wanted.as_state
                    if members[0].wanted.has(event):
                        if as_state not in shown:
                            shown[as_state] = self._change(batch, index, as_state)
                        wanted.append((index, shown[as_state]))
        return [group for group in groups.values() if group[1]]

    def _change(self, batch: Batch, index: int, as_state: bool) -> Change:
        event = batch.events[index]
        cursor = place_text.write(batch.place_after(index), self._known, event.tenant)
        return cursor, changes.content(event, as_state=as_state)

    def _cursor(self, place: Place, watcher: _HubWatcher) -> str:
        return place_text.write(place, self._known, watcher.wanted.tenant)

    def _catch_up(self, tx: Transaction, watcher: _HubWatcher, place: Place, live: Batch) -> None:
        """Read a watcher the next page of what it has missed, if it has room for it."""
        now = time.monotonic()
        if not watcher.sink.has_room:
            if now - watcher.room_at > SLOW_S:
                watcher.sink.end(SlowReader("the changes were not read in time", hint=_GO_ON))
            return
        watcher.room_at = now
        # What the thread has seen in this turn includes what the watcher had seen before it.
        may_join = watcher.is_near and place.next is None and not live.more and live.place.next is None
        if may_join:
            place = Place(place.seen, live.place.seen, -1, place.at)
        try:
            batch = _page(tx, place, watcher.wanted)
        except CursorExpired as error:
            watcher.sink.end(error)
            return
        if not self._hand_out(batch, [watcher]):
            return
        watcher.is_near = not batch.more
        watcher.place = None if may_join and batch.place.next is None else batch.place

    def _tend(self) -> None:
        """Forget those who left, end those who may not watch any more, show the others that all is well."""
        now = time.monotonic()
        if now < self._tend_at:
            return
        self._tend_at = now + TEND_S
        self._watchers = [each for each in self._watchers if each.sink.is_open]
        for each in self._watchers:
            if now >= each.ping_at:
                each.ping_at = now + PING_S
                each.sink.ping()
        if now >= self._check_at and self._identity:
            self._check_at = now + CHECK_S
            rights.end_without_right(each.sink for each in self._watchers)
        # Whoever loses the right to watch does not see more because others are looked for less often.
        self._tend_at = min(self._tend_at, self._check_at)

    def _end_all(self, error: PipeWeaveError) -> None:
        for each in self._watchers:
            each.sink.end(error)

    def _is_idle(self) -> bool:
        now = time.monotonic()
        with self._lock:
            if self._watchers or self._new:
                self._idle_since = now
            elif now - self._idle_since > IDLE_S:
                self._thread = None
                return True
        return False


def _page(tx: Transaction, place: Place, wanted: WantedChanges) -> Batch:
    return feed.read_after(
        tx,
        place,
        types=None if wanted.types is None else sorted(wanted.types),
        tenant=wanted.tenant,
        pipeline=wanted.pipeline,
        run_id=None if wanted.is_tree else wanted.run_id,
        root=wanted.run_id if wanted.is_tree else None,
        limit=PAGE,
    )
