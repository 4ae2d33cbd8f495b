"""Lets work rest between two looks. Each database of a process has its own times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Database


@dataclass(frozen=True, eq=False)
class Rest:
    """Declares the rest of one piece of work.

    Args:
        name: of the work, for people.
        clock: a monotonic clock (s).
    """

    name: str
    clock: Callable[[], float] = time.monotonic
    _until: CacheSpec[str, float] = field(default_factory=lambda: CacheSpec("rests", 2))

    def is_over(self, database: Database) -> bool:
        """Whether the work may look again."""
        return self.left_s(database) <= 0

    def left_s(self, database: Database) -> float:
        """How long (s) the work still rests; 0 or less: it may look again."""
        until = database.caches.of(self._until).get(self.name)
        return 0.0 if until is None else until - self.clock()

    def begin(self, database: Database, seconds: float) -> None:
        """Let the work rest for this long (s) from now on; 0 ends its rest."""
        database.caches.of(self._until).put(self.name, self.clock() + seconds)
