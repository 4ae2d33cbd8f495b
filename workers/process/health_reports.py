"""What worker, dispatcher and beat processes say of themselves: running, stopping or silent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeweave.orchestrator.domain import iso
from pipeweave.workers.process.health_server import ProcessHealth

SILENT_AFTER = timedelta(seconds=10)
"""A process that could store nothing in PostgreSQL for so long is not healthy."""


@dataclass(slots=True)
class LastStored:
    """When a process last stored its sign of life; written by one thread, read by others."""

    _moment: float = field(default_factory=time.monotonic)

    def record(self) -> None:
        """It was stored now."""
        self._moment = time.monotonic()

    @property
    def age(self) -> timedelta:
        """How long ago that was."""
        return timedelta(seconds=time.monotonic() - self._moment)


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The health of one process, whose uptime is counted from here on."""

    stored: LastStored
    silent_after: timedelta = SILENT_AFTER
    _began: float = field(default_factory=time.monotonic)

    def of(self, members: dict[str, Any], *, is_stopping: bool, stored_as: str) -> ProcessHealth:
        """The answer to a probe.

        Args:
            members: what it says besides.
            is_stopping: it was asked to stop, and takes nothing more.
            stored_as: the name of the time of its last sign of life.
        """
        is_silent = self.stored.age > self.silent_after
        status = "stopping" if is_stopping else "silent" if is_silent else "running"
        stored = iso(_now() - self.stored.age)
        times = {"uptime": round(time.monotonic() - self._began, 1), stored_as: stored}
        return ProcessHealth(status == "running", {"status": status, **members, **times})


def _now() -> datetime:
    return datetime.now(UTC)
