"""Lets work rest between two looks. Each database of a process has its own times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Database


class Unfinished(int):
    """How much a piece of work did that left something undone: it does not rest before it goes on."""


@dataclass(frozen=True, eq=False)
class Rest:
    """Declares the rest of one piece of work.

    Args:
        clock: a monotonic clock (s).
    """

    clock: Callable[[], float] = time.monotonic
    _until: CacheSpec[str, float] = field(default_factory=lambda: CacheSpec("rests", 2))

    def is_over(self, database: Database) -> bool:
        """Whether the work may look again."""
        until = database.caches.of(self._until).get("")
        return until is None or until <= self.clock()

    def begin(self, database: Database, seconds: float) -> None:
        """Let the work rest for this long (s) from now on; 0 ends its rest."""
        database.caches.of(self._until).put("", self.clock() + seconds)
