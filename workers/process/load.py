"""Measures the load of a worker for its heartbeat: busy children, memory, processor time and calls begun."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from pipeweave.orchestrator.registry import WorkerLoad
from pipeweave.process_use import ProcessUse, use_of
from pipeweave.workers.consumer.child_slots import Slots

# Memory and processor time are read so often (s): it costs a read of two small files for each process.
READ_EVERY_S = 5.0
# Calls are counted by the minute, over an hour.
BUCKET_S = 60.0
BUCKETS = 60


class LoadMeter:
    """Measures a worker from its parent process.

    Args:
        slots: where its children note what they do.
        clock: a monotonic clock (s), that of the slots.
        use: what a process uses.
        memory_replacements: how many of its children were replaced because of their memory.
    """

    def __init__(
        self,
        slots: Slots,
        clock: Callable[[], float] = time.monotonic,
        use: Callable[[int], ProcessUse | None] = use_of,
        memory_replacements: Callable[[], int] = lambda: 0,
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._use = use
        self._memory_replacements = memory_replacements
        self._starts: dict[int, int] = {}
        self._buckets: deque[int] = deque([0], maxlen=BUCKETS)
        self._bucket_until = clock() + BUCKET_S
        self._last_fetch = 0.0
        self._read_at = float("-inf")
        self._cpu_s: dict[int, float] = {}
        self._rss_bytes: int | None = None
        self._cpu_percent: float | None = None

    def measure(self) -> WorkerLoad:
        """The load at this moment."""
        now = self._clock()
        taken = list(self._slots.taken())
        self._count_starts(now, {slot.pid: slot.starts for slot in taken})
        self._last_fetch = max([self._last_fetch, *(slot.fetched_at for slot in taken)])
        if now >= self._read_at + READ_EVERY_S:
            self._read(now, [os.getpid(), *(slot.pid for slot in taken)])
        return WorkerLoad(
            busy=sum(slot.state().is_busy for slot in taken),
            since_fetch=timedelta(seconds=now - self._last_fetch) if self._last_fetch else None,
            rss_bytes=self._rss_bytes,
            cpu_percent=self._cpu_percent,
            starts_last_hour=sum(self._buckets),
            memory_replacements=self._memory_replacements(),
        )

    def _count_starts(self, now: float, starts: dict[int, int]) -> None:
        while now >= self._bucket_until:
            self._buckets.append(0)
            self._bucket_until += BUCKET_S
        # What a child began between two looks and its death is not counted.
        self._buckets[-1] += sum(count - self._starts.get(pid, 0) for pid, count in starts.items())
        self._starts = starts

    def _read(self, now: float, pids: list[int]) -> None:
        uses = {pid: use for pid in pids if (use := self._use(pid)) is not None}
        if not uses:
            return
        self._rss_bytes = sum(use.rss_bytes for use in uses.values())
        cpu_s = {pid: use.cpu_s for pid, use in uses.items()}
        if self._cpu_s:
            spent = sum(max(0.0, cpu_s[pid] - self._cpu_s[pid]) for pid in cpu_s if pid in self._cpu_s)
            self._cpu_percent = 100 * spent / (now - self._read_at)
        self._cpu_s, self._read_at = cpu_s, now
