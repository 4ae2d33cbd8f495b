"""Watches the memory of a worker, its parent process and its children together, against WORKER_MAX_MEMORY.

A worker that takes too much replaces the child that takes most; the pool does so between two messages. Only a
process that has grown since it began is replaced: another one would be as large. If it is the parent that has
grown, the worker takes nothing more, and ends when nothing is under way; its supervisor starts another.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence

from pipeweave import process_use

log = logging.getLogger(__name__)

# How often it looks (s). It reads a small file for each process; beyond the cap, that takes 1 ms for 100 MB.
LOOK_EVERY_S = 5.0
# After a replacement, memory needs this long (s) to show what it brought.
AGAIN_AFTER_S = 60.0
# A cap that is too low for as many children is told so often (s).
TOLD_EVERY_S = 3600.0
# What has grown: by this share of what it took first, and by at least so many bytes.
GROWN_SHARE, GROWN_BYTES = 0.25, 32_000_000

RESTART_CODE = 75
"""The exit code of a worker that is to be started again (EX_TEMPFAIL)."""


class MemoryWatch:
    """The watch of one worker.

    Args:
        limit_bytes: what the worker may take; 0 for no limit.
        clock: a monotonic clock (s).
        resident: the resident size of a process (bytes), which is cheap and never below its share.
        share: its proportional share.

    Attributes:
        replaced: how many children were replaced.
        wants_restart: whether the parent process takes too much itself.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        resident: Callable[[int], int | None] = process_use.resident_of,
        share: Callable[[int], int | None] = process_use.memory_of,
    ) -> None:
        self._limit = limit_bytes
        self._clock, self._resident, self._share = clock, resident, share
        self._parent = os.getpid()
        self._first: dict[int, int] = {}
        self._chosen: set[int] = set()
        self._look_at = self._again_at = self._tell_at = float("-inf")
        self.replaced = 0
        self.wants_restart = False
        self.begin(self._parent)

    def begin(self, pid: int) -> None:
        """Note what a process takes before it has done anything: it grows by what it takes more later."""
        if self._limit and (size := self._share(pid)) is not None:
            self._first[pid] = size

    def look(self, children: Sequence[int]) -> int | None:
        """The child to replace now, by its process id; None for none.

        Args:
            children: those of the pool.
        """
        now = self._clock()
        if not self._limit or self.wants_restart or now < self._look_at:
            return None
        self._look_at = now + LOOK_EVERY_S
        sizes = self._sizes([self._parent, *children])
        total = sum(sizes.values())
        if total <= self._limit or now < self._again_at:
            return None
        return self._choose(sizes, total, now)

    def _sizes(self, pids: Sequence[int]) -> dict[int, int]:
        """The sizes of the processes: resident ones where those are below the limit already."""
        self._first = {pid: size for pid, size in self._first.items() if pid in pids}
        self._chosen.intersection_update(pids)
        resident = _measured(pids, self._resident)
        return resident if sum(resident.values()) <= self._limit else _measured(pids, self._share)

    def _choose(self, sizes: Mapping[int, int], total: int, now: float) -> int | None:
        grown = [pid for pid, size in sizes.items() if pid not in self._chosen and self._has_grown(pid, size)]
        names = {"memory_mb": total // 10**6, "limit_mb": self._limit // 10**6}
        if not grown:
            if now >= self._tell_at:
                self._tell_at = now + TOLD_EVERY_S
                log.warning("worker.memory_cap_low", extra={**names, "processes": len(sizes)})
            return None
        fattest = max(grown, key=lambda pid: sizes[pid])
        self._again_at = now + AGAIN_AFTER_S
        names |= {"pid": fattest, "pid_memory_mb": sizes[fattest] // 10**6}
        if fattest == self._parent:
            self.wants_restart = True
            log.warning("worker.memory_exceeded", extra={**names, "ends": "worker"})
            return None
        self._chosen.add(fattest)
        self.replaced += 1
        log.warning("worker.memory_exceeded", extra={**names, "ends": "child"})
        return fattest

    def _has_grown(self, pid: int, size: int) -> bool:
        first = self._first.get(pid, size)
        return size - first >= max(GROWN_BYTES, first * GROWN_SHARE)


def _measured(pids: Sequence[int], measure: Callable[[int], int | None]) -> dict[int, int]:
    return {pid: size for pid in pids if (size := measure(pid)) is not None}
