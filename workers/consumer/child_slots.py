"""Holds the slots: shared memory in which each child process of a worker notes its work, for its parent.

A killed child cannot report its work. Its slot has the message under way, the task runs whose functions the
child has called and whose outcomes are not stored yet, and the deadline of the current call. Writing a slot
costs about a microsecond per call, and no system call.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.registry import child_of

# At most this many task runs of a message, and calls of a turn, are noted.
MOST_NAMED = 1_000
MOST_CALLED = 1_280

# A child whose call was condemned, and returned nevertheless, waits this long (s) for the kill; after that
# its parent must be gone.
KILL_WITHIN_S = 5.0

# The slot of a dead child stays until its parent has read it; meanwhile the next child at the same place of
# the pool takes another slot.
SLOTS_PER_PLACE = 8

# pid, ending, deadline, limit, deadline of the fenced call and until when it may go on, deadline of the
# condemned call, run, attempt, named, called, blamed
_HEAD = struct.Struct("=qqddddd16siii16s")
_PID, _ENDING, _TIMES = struct.Struct("=q"), struct.Struct("=q"), struct.Struct("=dd")
_COUNT, _ORDINAL, _ID = struct.Struct("=i"), struct.Struct("=i"), struct.Struct("=16s")
_TIME, _STARTS = struct.Struct("=d"), struct.Struct("=q")
_ENDING_AT, _TIMES_AT, _FENCED_AT, _UNTIL_AT, _CONDEMNED_AT, _CALLED_AT, _BLAMED_AT = (
    8,
    16,
    32,
    40,
    48,
    80,
    84,
)
_NAMED_FROM = _HEAD.size
_CALLED_FROM = _NAMED_FROM + MOST_NAMED * _ORDINAL.size
# Behind the calls: when the last message came (s, monotonic clock), and how many calls this child began.
_FETCHED_AT = _CALLED_FROM + MOST_CALLED * _ID.size
_STARTS_AT = _FETCHED_AT + _TIME.size
_TALLY_FROM = _STARTS_AT + _STARTS.size
# Calls that have ended, those of them that ended badly, and the seconds that they took.
_TALLY = struct.Struct("=qqd")
# Since when the child waits for storage (s, monotonic clock); 0: it does not.
_STORAGE_AT = _TALLY_FROM + _TALLY.size
_SIZE = _STORAGE_AT + _TIME.size
_FREE = bytes(_HEAD.size)
_NO_RUN = bytes(16)
# In place of the task run to whose call the deadline belongs: to all that were begun.
_ALL = bytes(16)
# In front of the slots: whether the worker stops, whether priorities are mixed in its queue, whether it
# drains, and how many promotions of PostgreSQL it has noticed.
_FIRST = 8
_STOPPING_AT, _MIXED_AT, _DRAINING_AT, _PROMOTIONS_AT = 0, 1, 2, 3
# What one byte holds: a worker that has seen more notices them by its heartbeats alone.
_MOST_PROMOTIONS = 255


class KillReason(IntEnum):
    """Why a parent killed a child; UNKNOWN when it did not."""

    UNKNOWN = 0
    OVERDUE = 1
    STOPPED = 2
    FENCED = 3


@dataclass(frozen=True, slots=True)
class SlotState:
    """The state of a child, as its parent reads it from the slot.

    Args:
        deadline: when the current call is killed (s, monotonic clock); 0 between calls.
        limit: the time limit of that call (s).
        fenced_until: when the call is killed because its attempt was taken away; 0 if it was not.
    """

    pid: int
    ending: KillReason
    deadline: float
    limit: float
    fenced_until: float
    is_busy: bool


@dataclass(frozen=True, slots=True)
class ChildTally:
    """What the children of a worker have done since it started.

    Args:
        calls: calls that have ended.
        failed: those of them that ended badly.
        seconds: how long all of them took together.
    """

    calls: int = 0
    failed: int = 0
    seconds: float = 0.0

    def __add__(self, other: ChildTally) -> ChildTally:
        return ChildTally(self.calls + other.calls, self.failed + other.failed, self.seconds + other.seconds)

    def __sub__(self, other: ChildTally) -> ChildTally:
        return ChildTally(self.calls - other.calls, self.failed - other.failed, self.seconds - other.seconds)


class Slot:
    """The slot of one child."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        self._memory = memory
        self._start = start
        # The task runs of the calls, as they are noted in the memory.
        self._calls: list[UUID] = []
        self._starts = 0

    # --- the child writes ---------------------------------------------------------------------------------

    def take(self, pid: int) -> None:
        _HEAD.pack_into(self._memory, self._start, pid, 0, 0.0, 0.0, 0.0, 0.0, 0.0, _NO_RUN, 0, 0, 0, _ALL)
        self._calls = []

    def forget_load(self) -> None:
        """Begin to count the messages and calls of a new child."""
        self.wait_for_storage(0.0)
        _TIME.pack_into(self._memory, self._start + _FETCHED_AT, 0.0)
        _STARTS.pack_into(self._memory, self._start + _STARTS_AT, 0)

    def begin(self, run_id: UUID, ordinals: Sequence[int], attempt: int) -> None:
        """Note a message that arrived."""
        pid = self.pid
        named = ordinals[:MOST_NAMED]
        head = pid, 0, 0.0, 0.0, 0.0, 0.0, 0.0, run_id.bytes, attempt, len(named), 0, _ALL
        _HEAD.pack_into(self._memory, self._start, *head)
        struct.pack_into(f"={len(named)}i", self._memory, self._start + _NAMED_FROM, *named)
        _TIME.pack_into(self._memory, self._start + _FETCHED_AT, time.monotonic())
        self._calls = []

    @property
    def room(self) -> int:
        """How many more calls can be noted."""
        return MOST_CALLED - len(self._calls)

    def call(self, task_run_id: UUID, deadline: float, limit: float) -> None:
        """Note a function that is about to be called."""
        self.record(task_run_id)
        _TIMES.pack_into(self._memory, self._start + _TIMES_AT, deadline, limit)

    def record(self, task_run_id: UUID) -> None:
        """Note a function that is about to be called together with others; `watch` says until when."""
        place = self._start + _CALLED_FROM + len(self._calls) * _ID.size
        _ID.pack_into(self._memory, place, task_run_id.bytes)
        self._calls.append(task_run_id)
        _COUNT.pack_into(self._memory, self._start + _CALLED_AT, len(self._calls))
        self._starts += 1
        _STARTS.pack_into(self._memory, self._start + _STARTS_AT, self._starts)

    def watch(self, task_run_id: UUID, deadline: float, limit: float) -> None:
        """Of the calls that run together, this one is killed first.

        When the parent is about to kill this process for the call that was watched before, wait for the kill,
        as `returned` does.

        Args:
            task_run_id: of the call to blame: the kill ends all of them, but only this one took too long.
        """
        before = self._deadline
        _ID.pack_into(self._memory, self._start + _BLAMED_AT, task_run_id.bytes)
        _TIMES.pack_into(self._memory, self._start + _TIMES_AT, deadline, limit)
        if before and before != deadline and self._condemned() == before:
            self._wait_for_the_kill(before)

    def returned(self) -> None:
        """The function returned, or raised; of functions that run together: all of them did.

        When the parent is about to kill this process for that call, wait for the kill: it must not hit the
        next call.
        """
        deadline = self._deadline
        _TIME.pack_into(self._memory, self._start + _TIMES_AT, 0.0)
        _ID.pack_into(self._memory, self._start + _BLAMED_AT, _ALL)
        if deadline and self._condemned() == deadline:
            self._wait_for_the_kill(deadline)

    def _wait_for_the_kill(self, deadline: float) -> None:
        until = time.monotonic() + KILL_WITHIN_S
        while self._condemned() == deadline and time.monotonic() < until:
            time.sleep(0.001)

    def _condemned(self) -> float:
        return float(_TIME.unpack_from(self._memory, self._start + _CONDEMNED_AT)[0])

    @property
    def _deadline(self) -> float:
        return float(_TIMES.unpack_from(self._memory, self._start + _TIMES_AT)[0])

    def fence(self, deadline: float, until: float) -> None:
        """Fence the call with this deadline: its attempt was taken away, and it is killed at `until`.

        The watchdog's thread calls this while the call may return and the next call begin. The next call has
        another deadline and is not fenced.
        """
        _TIME.pack_into(self._memory, self._start + _UNTIL_AT, until)
        _TIME.pack_into(self._memory, self._start + _FENCED_AT, deadline)

    def stored(self) -> None:
        """Forget the calls: their outcomes are durable."""
        self._calls = []
        _COUNT.pack_into(self._memory, self._start + _CALLED_AT, 0)

    def forget(self, task_run_ids: Sequence[UUID]) -> None:
        """Forget some of the calls, whose outcomes are durable. At no moment another one is missing."""
        for each in task_run_ids:
            place, last = self._calls.index(each), self._calls[-1]
            _ID.pack_into(self._memory, self._start + _CALLED_FROM + place * _ID.size, last.bytes)
            self._calls[place] = last
            self._calls.pop()
            _COUNT.pack_into(self._memory, self._start + _CALLED_AT, len(self._calls))

    def end(self) -> None:
        """Forget the message: it is done."""
        self.take(self.pid)

    def count(self, calls: int, failed: int, seconds: float) -> None:
        """Count calls that have ended. The sum outlives the child."""
        place = self._start + _TALLY_FROM
        calls_before, failed_before, seconds_before = _TALLY.unpack_from(self._memory, place)
        sums = calls_before + calls, failed_before + failed, seconds_before + seconds
        _TALLY.pack_into(self._memory, place, *sums)

    def wait_for_storage(self, since: float) -> None:
        """Note since when the child waits for storage (s, monotonic clock); 0: it does not any more."""
        _TIME.pack_into(self._memory, self._start + _STORAGE_AT, since)

    @property
    def is_full(self) -> bool:
        return len(self._calls) >= MOST_CALLED

    @property
    def is_busy(self) -> bool:
        """Whether a message is under way."""
        return self.state().is_busy

    # --- the parent reads ---------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return int(_PID.unpack_from(self._memory, self._start)[0])

    @property
    def fetched_at(self) -> float:
        """When the child last got a message (s, monotonic clock); 0: it got none."""
        return float(_TIME.unpack_from(self._memory, self._start + _FETCHED_AT)[0])

    @property
    def starts(self) -> int:
        """How many calls the child began since it has the slot."""
        return int(_STARTS.unpack_from(self._memory, self._start + _STARTS_AT)[0])

    @property
    def in_storage_since(self) -> float:
        """Since when the child waits for storage (s, monotonic clock); 0: it does not."""
        return float(_TIME.unpack_from(self._memory, self._start + _STORAGE_AT)[0])

    def state(self) -> SlotState:
        head = _HEAD.unpack_from(self._memory, self._start)
        pid, ending, deadline, limit, fenced, until, _, run, _, _, _, _ = head
        fenced_until = until if deadline and fenced == deadline else 0.0
        return SlotState(pid, KillReason(ending), deadline, limit, fenced_until, run != _NO_RUN)

    def tally(self) -> ChildTally:
        """What all children that ever had this slot have done."""
        return ChildTally(*_TALLY.unpack_from(self._memory, self._start + _TALLY_FROM))

    def condemn(self, ending: KillReason, deadline: float = 0.0) -> bool:
        """Note why the child is about to be killed. False, and nothing is noted, when it must not be killed.

        Args:
            deadline: the deadline of the call for which it is killed; 0 kills it during any call.
        """
        if deadline:
            # In this order: either the child sees the note when the call returns, and waits for the kill, or
            # this look sees that the call has returned.
            _TIME.pack_into(self._memory, self._start + _CONDEMNED_AT, deadline)
            if self._deadline != deadline:
                _TIME.pack_into(self._memory, self._start + _CONDEMNED_AT, 0.0)
                return False
        _ENDING.pack_into(self._memory, self._start + _ENDING_AT, ending)
        return True

    def activity(self, worker_id: str) -> losses.ChildActivity:
        """The last message and calls of the child."""
        head = _HEAD.unpack_from(self._memory, self._start)
        pid, run, attempt, named, called, blamed = head[0], *head[7:]
        worker = child_of(worker_id, pid)
        if run == _NO_RUN:
            return losses.ChildActivity(worker)
        run_id = UUID(bytes=run)
        ordinals = self._ordinals(_NAMED_FROM, named)
        begun = frozenset(self._id(place) for place in range(called))
        to_blame = None if blamed == _ALL else UUID(bytes=blamed)
        return losses.ChildActivity(worker, begun, run_id, ordinals, attempt, to_blame)

    def free(self) -> None:
        """Free the slot for another child."""
        self._memory[self._start : self._start + _HEAD.size] = _FREE

    def _id(self, place: int) -> UUID:
        fields = _ID.unpack_from(self._memory, self._start + _CALLED_FROM + place * _ID.size)
        return UUID(bytes=fields[0])

    def _ordinals(self, place: int, count: int) -> tuple[int, ...]:
        return struct.unpack_from(f"={count}i", self._memory, self._start + place)


class Slots:
    """The memory of a worker, made before it forks.

    Attributes:
        places: how many children work at a time.
    """

    def __init__(self, concurrency: int) -> None:
        self.places = concurrency
        self._count = concurrency * SLOTS_PER_PLACE
        self._memory = mmap.mmap(-1, _FIRST + self._count * _SIZE)

    def take(self, place: int, pid: int) -> Slot | None:
        """Take a free slot for the child at this place of the pool. None until the parent has read one."""
        for number in range(place % self.places, self._count, self.places):
            slot = self._slot(number)
            if slot.pid == 0:
                slot.forget_load()
                slot.take(pid)
                return slot
        return None

    def taken(self) -> Iterator[Slot]:
        """The slots of all children, also of dead children whose slots are not freed yet."""
        # Most slots are free, and an idle worker looks each second: a free one is not made an object.
        for start in range(_FIRST, _FIRST + self._count * _SIZE, _SIZE):
            if _PID.unpack_from(self._memory, start)[0]:
                yield Slot(self._memory, start)

    def tally(self) -> ChildTally:
        """What all children of the worker have done since it started."""
        return sum((self._slot(number).tally() for number in range(self._count)), ChildTally())

    @property
    def are_taken(self) -> bool:
        """Whether there is a child at each place of the pool, alive or dead."""
        return sum(1 for _ in self.taken()) >= self.places

    def _slot(self, number: int) -> Slot:
        return Slot(self._memory, _FIRST + number * _SIZE)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker was asked to stop; then children claim nothing more."""
        return self._memory[_STOPPING_AT] == 1

    def stop(self) -> None:
        """Ask the children to claim nothing more."""
        self._memory[_STOPPING_AT] = 1

    @property
    def is_draining(self) -> bool:
        """Whether an operator lets the worker take nothing more, until it is resumed."""
        return self._memory[_DRAINING_AT] == 1

    def set_draining(self, is_draining: bool) -> None:
        """Tell the children whether the worker drains."""
        self._memory[_DRAINING_AT] = is_draining

    @property
    def takes_nothing(self) -> bool:
        """Whether children claim nothing more: the worker stops or drains."""
        return self._memory[_STOPPING_AT] == 1 or self._memory[_DRAINING_AT] == 1

    @property
    def is_mixed(self) -> bool:
        """Whether task runs of different priorities are queued; then children look for the best ones."""
        return self._memory[_MIXED_AT] == 1

    def set_mixed(self, is_mixed: bool) -> None:
        """Tell the children whether task runs of different priorities are queued."""
        self._memory[_MIXED_AT] = is_mixed

    @property
    def promotions(self) -> int:
        """How many promotions of PostgreSQL the parent has noticed."""
        return self._memory[_PROMOTIONS_AT]

    def set_promotions(self, count: int) -> None:
        """Tell the children how many promotions of PostgreSQL were noticed: their claims may be lost."""
        self._memory[_PROMOTIONS_AT] = min(count, _MOST_PROMOTIONS)
