"""Watches long calls from a thread of the child process: the watchdog.

A long call must delay nothing but itself. While it runs, the watchdog sends heartbeats, stores the outcomes
of earlier calls and hands the other task runs of the message over to other workers. A heartbeat that finds no
row shows that the attempt was taken away: the watchdog interrupts the function, and if the function goes on,
the parent kills its process. During short calls the thread sleeps. Calls that run at once, of `async def`
tasks, are looked after by async_calls.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pipeweave.errors import AttemptFenced, PipeWeaveError
from pipeweave.orchestrator.domain import CallOutcome, TaskRun
from pipeweave.orchestrator.engine import Unstarted
from pipeweave.orchestrator.queueing import durations
from pipeweave.orchestrator.store import Database
from pipeweave.workers.consumer import reconcile
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.life_signs import LifeSigns
from pipeweave.workers.consumer.message import MESSAGE_S, Work
from pipeweave.workers.consumer.time_limit import HARD_AFTER_S, TimeLimit

log = logging.getLogger(__name__)

# How often the thread looks (s), and how often it sends a heartbeat for a call (s), at least.
LOOK_EVERY_S = 0.5
BEAT_EVERY_S = 5.0
# When no function was called for so long (s), it looks so often (s), until one is.
RESTS_AFTER_S = 10.0
REST_S = 5.0


# Stores outcomes and hands over task runs that were not begun, in a transaction of its own.
Store = Callable[[Work, Sequence[CallOutcome], Unstarted], None]


@dataclass(slots=True)
class _WatchedCall:
    work: Work
    task_run: TaskRun
    began: float
    deadline: float
    beat_every: float
    last_beat: float
    promotions: int
    is_fenced: bool = False


class Watchdog:
    """Watches the call under way in this process.

    Args:
        database: gives the thread a connection of its own.
        shortest_ms: the shortest heartbeat interval of the loaded tasks.
        is_stopping: whether the worker was asked to stop.
        store: called with the outcomes and remaining task runs of a message whose call takes long.
        fence: called with the deadline of a call whose attempt was taken away, and the time of its kill.
        between: called when no call is under way.
        signs: sends the heartbeats.
        limit: interrupts the function of an attempt that was taken away.
    """

    def __init__(
        self,
        database: Database,
        call_durations: CallDurations,
        limit: TimeLimit,
        *,
        shortest_ms: int,
        is_stopping: Callable[[], bool],
        store: Store,
        fence: Callable[[float, float], None],
        between: Callable[[], None],
        signs: LifeSigns,
    ) -> None:
        self.database = database
        self.durations = call_durations
        self.limit = limit
        self.is_stopping = is_stopping
        self.store = store
        self.fence = fence
        self.between = between
        self.signs = signs
        self._every = min(LOOK_EVERY_S, shortest_ms / 2000)
        self._call: _WatchedCall | None = None
        self._together: Callable[[], None] | None = None
        self._taken: list[tuple[Work, list[CallOutcome], Unstarted]] = []
        self._lock = threading.Lock()
        self._called_at = time.monotonic()
        self._is_resting = False
        self._has_ended = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch. Call it in the process whose calls are watched: threads do not survive a fork."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._has_ended = True
        self._woken.set()

    def calling(self, work: Work, task_run: TaskRun, deadline: float, interval_ms: int) -> None:
        """Watch a function that is about to be called and whose process is killed at `deadline`."""
        now = time.monotonic()
        beat_every = min(BEAT_EVERY_S, interval_ms / 2000)
        self._call = _WatchedCall(work, task_run, now, deadline, beat_every, now, self.signs.promotions())
        self._wake(now)

    def returned(self) -> None:
        """Stop watching: the function returned or raised."""
        self._call = None

    @contextmanager
    def together(self, look: Callable[[], None]) -> Iterator[None]:
        """While the block runs many calls at once: `look` looks after them."""
        self._together = look
        self._wake(time.monotonic())
        try:
            yield
        finally:
            self._together = None

    def settle(self) -> None:
        """Store outcomes and hand over task runs that were taken, however long PostgreSQL is away.

        Raises:
            Unavailable: it was away for five minutes.
        """
        # With the lock: what the thread takes at this moment is in the queue then.
        with self._lock:
            if not self._taken:
                return
        reconcile.when_it_answers(self._store_taken, "watchdog")

    def _wake(self, now: float) -> None:
        # The thread is waked up only out of its rest: between short calls, that would cost more than a call.
        self._called_at = now
        if self._is_resting:
            self._woken.set()

    def _pause(self) -> None:
        # In this order: a call that begins meanwhile is seen here, or sees that the thread rests.
        self._is_resting = True
        is_idle, now = self._call is None and self._together is None, time.monotonic()
        if not is_idle:
            # What a long call leaves to be done, such as a deferred TERM, is seen soon after its end.
            self._called_at = now
        if not is_idle or now - self._called_at < RESTS_AFTER_S:
            self._is_resting = False
        self._woken.wait(REST_S if self._is_resting else self._every)
        self._is_resting = False
        if not self._has_ended:
            self._woken.clear()

    def _run(self) -> None:
        while True:
            self._pause()
            if self._has_ended:
                return
            try:
                self._look()
            except PipeWeaveError as error:
                log.warning("watchdog.failed", extra={"reason": error.detail})
            except Exception:
                log.exception("watchdog.failed")

    def _look(self) -> None:
        call = self._call
        if (look_together := self._together) is not None:
            look_together()
        elif call is None:
            self.between()
        else:
            self._take_rest(call)
        self._store_taken()
        if call is not None and not call.is_fenced and self._is_due(call):
            self._beat(call)
        self._store_usual_duration()

    def _is_due(self, call: _WatchedCall) -> bool:
        """Whether it is time for a heartbeat: at once after a promotion, which may lose claims."""
        is_late = time.monotonic() - call.last_beat >= call.beat_every
        return is_late or call.promotions < self.signs.promotions()

    def _take_rest(self, call: _WatchedCall) -> None:
        is_long = time.monotonic() - call.began > MESSAGE_S or call.work.is_long
        if not (is_long or self.is_stopping()):
            return
        # One step for `settle`: outcomes that leave the message are in this queue at once.
        with self._lock:
            taken = call.work.take_during_call()
            if taken is not None and any(taken):
                self._taken.append((call.work, *taken))

    def _store_taken(self) -> None:
        """Store taken outcomes and hand remaining task runs back; keep them until the commit succeeds."""
        with self._lock:
            while self._taken:
                try:
                    self.store(*self._taken[0])
                except PipeWeaveError:
                    raise
                except Exception:
                    # It would fail again and block the entries behind it. The tick finds the silent attempts.
                    log.exception("watchdog.failed")
                self._taken.pop(0)

    def _beat(self, call: _WatchedCall) -> None:
        mine = self.signs.send([call.task_run], call.promotions)
        call.last_beat, call.promotions = time.monotonic(), self.signs.promotions()
        if not mine and self._call is call:
            call.is_fenced = True
            self.fence(call.deadline, time.monotonic() + HARD_AFTER_S)
            self.limit.interrupt(call.task_run, AttemptFenced("this worker no longer owns the attempt"))

    def _store_usual_duration(self) -> None:
        """Store how long a task usually takes: it decides how many task runs share a message."""
        if (usual := self.durations.changed()) is not None:
            with self.database.statements() as tx:
                durations.record(tx, usual.tenant, usual.task_id, usual.seconds)
            self.durations.stored(usual)
