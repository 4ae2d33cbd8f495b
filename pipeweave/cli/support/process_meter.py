"""Measure what the processes of a stack use, for `pipeweave ps`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipeweave import process_use

if TYPE_CHECKING:
    from pipeweave.up.processes import ProcessRow

# The first look measures processor time over so many seconds; a later one, since the look before.
FIRST_S = 0.25


class UseMeter:
    """Measures processes with all that they have started.

    Args:
        pause: waits so many seconds.
    """

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._pause = pause
        self._at: float | None = None
        self._cpu_s: dict[int, float] = {}

    def measure(self, rows: Sequence[ProcessRow]) -> list[dict[str, Any]]:
        """The rows as documents, with `cpuPercent` of one processor and `memoryBytes`; None where it cannot
        be measured.
        """
        families = process_use.families([row.pid for row in rows if row.pid is not None])
        if self._at is None:
            self._note(families)
            self._pause(FIRST_S)
            # Processes that began meanwhile count, too.
            families = process_use.families([row.pid for row in rows if row.pid is not None])
        before, since = self._cpu_s, self._at
        self._note(families)
        now = datetime.now(UTC)
        return [
            {**row.to_json(now), **self._use(families.get(row.pid or 0, []), before, since)} for row in rows
        ]

    def _note(self, families: dict[int, list[int]]) -> None:
        self._at = time.monotonic()
        uses = {pid: process_use.use_of(pid) for family in families.values() for pid in family}
        self._cpu_s = {pid: use.cpu_s for pid, use in uses.items() if use is not None}

    def _use(
        self, family: list[int], before: dict[int, float], since: float | None
    ) -> dict[str, float | int | None]:
        measured = [pid for pid in family if pid in self._cpu_s]
        if not measured or since is None or self._at is None:
            return {"cpuPercent": None, "memoryBytes": None}
        # A process that began meanwhile has spent all of its time since.
        spent = sum(self._cpu_s[pid] - before.get(pid, 0.0) for pid in measured)
        seconds = max(self._at - since, 0.001)
        memory = sum(process_use.memory_of(pid) or 0 for pid in measured)
        return {"cpuPercent": round(100 * spent / seconds, 1), "memoryBytes": memory}
