"""The thread beside the calls of a child process: it says that a long call is alive, and hands over the rest.

A call that takes long must hold up nothing but itself: what was done before it is stored, and what its
message had claimed or still names goes to others while it runs. A heartbeat that finds no row tells that the
attempt is not this worker's any more, and stops the function; where that does not stop, its process is
killed. In between the thread sleeps; short calls never meet it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeweave.errors import AttemptFenced, PipeWeaveError
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.hand_over import Unstarted
from pipeweave.orchestrator.queueing import durations
from pipeweave.orchestrator.state import heartbeats
from pipeweave.orchestrator.store.database import Database
from pipeweave.workers.consumer import reconcile
from pipeweave.workers.consumer.call_durations import CallDurations
from pipeweave.workers.consumer.message import MESSAGE_S, Work
from pipeweave.workers.consumer.time_limit import HARD_AFTER_S, TimeLimit

log = logging.getLogger(__name__)

# How often the thread looks (s), and how often it says that a call is alive (s), at least.
LOOK_EVERY_S = 0.5
BEAT_EVERY_S = 5.0


# Stores what calls gave and hands over what was not begun, in a transaction of its own.
Store = Callable[[Work, Sequence[CallOutcome], Unstarted], None]


@dataclass(slots=True)
class _Call:
    work: Work
    task_run: TaskRun
    began: float
    deadline: float
    beat_every: float
    last_beat: float
    is_fenced: bool = False


class Watchdog:
    """Watches the call under way in this process.

    Args:
        database: a connection of its own is used, and only for calls that take long.
        shortest_ms: the shortest heartbeat interval of the loaded tasks.
        is_stopping: whether the worker was asked to stop.
        store: called with what waits behind a call that takes long.
        fence: told the deadline of a call that is not wanted any more, and until when it may go on.
        between: called when no call is under way.
        limit: stops the function of an attempt that is not wanted any more.
    """

    def __init__(
        self,
        database: Database,
        pace: CallDurations,
        limit: TimeLimit,
        *,
        shortest_ms: int,
        is_stopping: Callable[[], bool],
        store: Store,
        fence: Callable[[float, float], None],
        between: Callable[[], None],
    ) -> None:
        self.database = database
        self.durations = pace
        self.limit = limit
        self.is_stopping = is_stopping
        self.store = store
        self.fence = fence
        self.between = between
        self._every = min(LOOK_EVERY_S, shortest_ms / 2000)
        self._call: _Call | None = None
        self._owed: list[tuple[Work, list[CallOutcome], Unstarted]] = []
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin to watch; in the process whose calls these are."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._end.set()

    def calling(self, work: Work, task_run: TaskRun, deadline: float, interval_ms: int) -> None:
        """A function is about to be called, and killed when it goes on till `deadline`."""
        now = time.monotonic()
        self._call = _Call(work, task_run, now, deadline, min(BEAT_EVERY_S, interval_ms / 2000), now)

    def returned(self) -> None:
        """It returned."""
        self._call = None

    def settle(self) -> None:
        """Store and hand over what was taken and is still owed, however long PostgreSQL is away.

        Raises:
            Unavailable: it was away for five minutes.
        """
        reconcile.when_it_answers(self._give_back, "pulse")

    def _run(self) -> None:
        while not self._end.wait(self._every):
            try:
                self._look()
            except PipeWeaveError as error:
                log.warning("pulse.failed", extra={"reason": error.detail})
            except Exception:
                log.exception("pulse.failed")

    def _look(self) -> None:
        call = self._call
        if call is None:
            self.between()
        else:
            self._take_rest(call)
        self._give_back()
        if call is not None and not call.is_fenced and time.monotonic() - call.last_beat >= call.beat_every:
            self._beat(call)
        self._tell_pace()

    def _take_rest(self, call: _Call) -> None:
        is_long = time.monotonic() - call.began > MESSAGE_S or call.work.is_long
        if not (is_long or self.is_stopping()):
            return
        # Together, for `settle`: what is taken is owed at once.
        with self._lock:
            taken = call.work.take_beside()
            if taken is not None and any(taken):
                self._owed.append((call.work, *taken))

    def _give_back(self) -> None:
        """What was taken stays owed until PostgreSQL has it."""
        with self._lock:
            while self._owed:
                try:
                    self.store(*self._owed[0])
                except PipeWeaveError:
                    raise
                except Exception:
                    # It would fail again, and nothing else may wait behind it: silence will tell of it.
                    log.exception("pulse.failed")
                self._owed.pop(0)

    def _beat(self, call: _Call) -> None:
        with self.database.statements() as tx:
            is_mine = heartbeats.beat(tx, call.task_run)
        call.last_beat = time.monotonic()
        if not is_mine and self._call is call:
            call.is_fenced = True
            self.fence(call.deadline, time.monotonic() + HARD_AFTER_S)
            self.limit.interrupt(call.task_run, AttemptFenced("the attempt is not this worker's any more"))

    def _tell_pace(self) -> None:
        """How long a task usually takes decides how large the next chunks are."""
        if (news := self.durations.news()) is not None:
            with self.database.statements() as tx:
                durations.note(tx, news.tenant, news.task_id, news.seconds)
