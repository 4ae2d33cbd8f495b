"""Calls the functions of `async def` tasks, many at once: each in a task of the process's event loop.

The main thread prepares a call and stores its outcome, the loop's thread runs the function, and the
watchdog's thread looks after all of them: it sends their heartbeats, stores their progress, interrupts those
that were taken away, and says which function holds the loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from pipeweave.attempt import printed_lines
from pipeweave.errors import AttemptFenced
from pipeweave.masking import Masking, Masks
from pipeweave.orchestrator.deployment import log_context
from pipeweave.orchestrator.domain import CallOutcome, RunHeader, TaskRun, log_names
from pipeweave.orchestrator.store import Database
from pipeweave.workers.consumer.calls import Calls, PreparedCall
from pipeweave.workers.consumer.child_slots import Slot
from pipeweave.workers.consumer.event_loop import EventLoop, LoopCall
from pipeweave.workers.consumer.life_signs import LifeSigns
from pipeweave.workers.consumer.progress import LatestProgress
from pipeweave.workers.consumer.time_limit import HARD_AFTER_S

log = logging.getLogger(__name__)

# Heartbeats of the calls are sent this often (s), at least.
BEAT_EVERY_S = 5.0
# A function that holds the loop for longer (s) is named in the log: it keeps all other calls waiting.
HELD_S = 1.0


@dataclass(slots=True, eq=False)
class _CallUnderWay:
    run: RunHeader
    task_run: TaskRun
    prepared: PreparedCall
    loop_call: LoopCall
    progress: LatestProgress
    began: float
    beat_every: float
    promotions: int
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that has ended."""

    run_id: UUID
    task_run: TaskRun
    outcome: CallOutcome
    seconds: float


class AsyncCalls:
    """The calls of `async def` tasks of one process that are under way."""

    def __init__(self, database: Database, calls: Calls, slot: Slot, signs: LifeSigns) -> None:
        self._database = database
        self._signs = signs
        self._calls = calls
        self._slot = slot
        self._loop = EventLoop()
        self._deadlines = _Deadlines(slot)
        self._under_way: dict[LoopCall, _CallUnderWay] = {}
        self._of_task: Counter[str] = Counter()
        self._of_run: Counter[UUID] = Counter()
        self._last_beat = 0.0
        self._warned_of = ""

    @property
    def count(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def count_of(self, run_id: UUID) -> int:
        """How many of a run are under way."""
        return self._of_run[run_id]

    def room(self, task_id: str) -> int:
        """How many more calls of a task may begin now."""
        return min(self._calls.concurrent(task_id) - self._of_task[task_id], self._slot.room)

    def begin(self, run: RunHeader, task_run: TaskRun) -> EndedCall | None:
        """Begin a call. Returns how it has ended already: its key has a result, or its values are wrong."""
        began = time.monotonic()
        seconds, interval_ms = self._calls.limits(run, task_run)
        self._slot.record(task_run.id)
        progress = LatestProgress(self._database, task_run)
        prepared = self._calls.prepare(run, task_run, seconds, progress)
        if not isinstance(prepared, PreparedCall):
            return EndedCall(run.id, task_run, prepared, time.monotonic() - began)
        task, arguments = prepared.task, prepared.arguments
        loop_call = LoopCall(
            f"{task_run.task_id} ({prepared.context.task_run_id}, attempt {task_run.attempt})",
            lambda: task.fn(**arguments),
            seconds,
            began + seconds,
            lambda: _working_on(run, task_run, prepared.secrets.masks),
            self._deadlines.end,
        )
        prepared.context.cancelled = loop_call.is_over
        beat_every = min(BEAT_EVERY_S, interval_ms / 2000)
        self._under_way[loop_call] = _CallUnderWay(
            run, task_run, prepared, loop_call, progress, began, beat_every, self._signs.promotions()
        )
        self._of_task[task_run.task_id] += 1
        self._of_run[run.id] += 1
        self._deadlines.begin(loop_call, task_run.id)
        self._loop.begin(loop_call)
        return None

    def ended(self, seconds: float) -> list[EndedCall]:
        """The calls that have ended; it waits so long (s) for the first of them."""
        return [self._end(each) for each in self._loop.ended(seconds) if each in self._under_way]

    def _end(self, loop_call: LoopCall) -> EndedCall:
        call = self._under_way[loop_call]
        try:
            outcome = self._calls.finish(
                call.run, call.task_run, call.prepared, loop_call.left, loop_call.result, loop_call.error
            )
        finally:
            del self._under_way[loop_call]
            self._of_task[call.task_run.task_id] -= 1
            self._of_run[call.run.id] -= 1
            self._of_run += Counter()  # forgets runs without a call
        return EndedCall(call.run.id, call.task_run, outcome, time.monotonic() - call.began)

    def abandon(self) -> bool:
        """Cancel all calls, and wait for none of them. Returns whether there was any."""
        abandoned, self._under_way = self._under_way, {}
        self._of_task.clear()
        self._of_run.clear()
        for each in abandoned:
            self._loop.interrupt(each, AttemptFenced("this worker has given up its message"))
        return bool(abandoned)

    # --- the watchdog's thread ----------------------------------------------------------------------------

    def look(self) -> None:
        """Look after the calls under way.

        Raises:
            Unavailable: PostgreSQL is away.
        """
        self._warn_if_held()
        calls = [each for each in list(self._under_way.values()) if not each.loop_call.has_ended]
        if calls and self._is_due(calls):
            self._beat([each for each in calls if not each.is_fenced])
        for each in calls:
            each.progress.store()

    def _is_due(self, calls: list[_CallUnderWay]) -> bool:
        """Whether it is time for heartbeats: at once after a promotion, which may lose claims."""
        is_late = time.monotonic() - self._last_beat >= min(each.beat_every for each in calls)
        return is_late or any(each.promotions < self._signs.promotions() for each in calls)

    def _beat(self, calls: list[_CallUnderWay]) -> None:
        mine: set[UUID] = set()
        for run_id, known in {(each.run.id, each.promotions) for each in calls}:
            named = [each for each in calls if (each.run.id, each.promotions) == (run_id, known)]
            mine |= self._signs.send([each.task_run for each in named], known)
        self._last_beat = time.monotonic()
        for each in calls:
            each.promotions = self._signs.promotions()
            # A call that has ended meanwhile may have its outcome stored.
            if each.task_run.id not in mine and not each.loop_call.has_ended:
                each.is_fenced = True
                self._deadlines.shorten(each.loop_call, time.monotonic() + HARD_AFTER_S)
                self._loop.interrupt(each.loop_call, AttemptFenced("this worker no longer owns the attempt"))

    def _warn_if_held(self) -> None:
        seconds, name = self._loop.held()
        if seconds <= HELD_S or name == self._warned_of:
            return
        self._warned_of = name
        by = next((each for each in list(self._under_way.values()) if each.loop_call.name == name), None)
        names = {} if by is None else log_names.names_of(by.run, by.task_run)
        hint = "await what waits, or give it to asyncio.to_thread: all calls of this process wait meanwhile"
        log.warning(
            "event_loop.held", extra={"by": name, "seconds": round(seconds, 1), "hint": hint, **names}
        )


class _Deadlines:
    """Tells the parent which of the calls it must kill first, if that call goes on far beyond its limit."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._lock = threading.Lock()
        self._hard: dict[LoopCall, tuple[float, UUID]] = {}
        self._first: LoopCall | None = None

    def begin(self, call: LoopCall, task_run_id: UUID) -> None:
        with self._lock:
            self._hard[call] = call.deadline + HARD_AFTER_S, task_run_id
            self._tell_if(self._first is None or self._hard[call] < self._hard[self._first])

    def shorten(self, call: LoopCall, deadline: float) -> None:
        """Kill the process at this time if the call is still under way."""
        with self._lock:
            if call in self._hard:
                before, task_run_id = self._hard[call]
                self._hard[call] = min(before, deadline), task_run_id
                self._tell_if(True)

    def end(self, call: LoopCall) -> None:
        with self._lock:
            self._hard.pop(call, None)
            self._tell_if(call is self._first)

    def _tell_if(self, is_changed: bool) -> None:
        if not is_changed:
            return
        self._first = min(self._hard, key=self._hard.__getitem__, default=None)
        if self._first is None:
            self._slot.returned()
        else:
            deadline, task_run_id = self._hard[self._first]
            self._slot.watch(task_run_id, deadline, self._first.limit)


@contextmanager
def _working_on(run: RunHeader, task_run: TaskRun, masks: Masks) -> Iterator[None]:
    """What a call logs and prints belongs to it, whichever calls run beside it."""
    with log_context.WorkingOn(run, task_run), Masking(masks):
        printed_lines.begin_own_lines()
        try:
            yield
        finally:
            printed_lines.end_lines()
