"""Looks through history for what no index finds: slice by slice, newest first, for a bounded time.

A search that comes to its bound says how far it has looked and where it goes on, so that no question about
years of history holds a connection for long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.store.keyset import Document, cursor_of

# Rows that one statement looks at, and one request; after so many seconds, a request leaves the rest.
SLICE = 500
MOST_ROWS = 20_000
MAX_SECONDS = 0.3


@dataclass(slots=True)
class ScanResult:
    """What a scan has found.

    Args:
        rows: those that match, at most as many as were wanted.
        last: the id of the last row that was looked at, or None if there was none.
        number: how many rows were looked at.
        is_over: whether it has come to the end of the history, or to the number of rows that was wanted.
    """

    rows: list[Any] = field(default_factory=list)
    last: UUID | None = None
    number: int = 0
    is_over: bool = False

    def answer(self, shown: Document, name: str) -> Document:
        """The answer of the list with this name: {items, nextCursor} as its page was cut, with how far it
        looked. A look that ended before the page was full goes on where it ended.
        """
        is_page_full = shown["nextCursor"] is not None
        if is_page_full or self.is_over or self.last is None:
            return {**shown, "scanned": self.number, "scannedTo": None}
        looked_back_to = datetime.fromtimestamp((self.last.int >> 80) / 1000, UTC)
        return {
            **shown,
            "nextCursor": cursor_of(name, self.last),
            "scanned": self.number,
            "scannedTo": iso(looked_back_to),
        }


# Gives the ids of the next slice behind an id, newest first, at most SLICE of them; none at the end.
NextIds = Callable[[UUID | None], Sequence[UUID]]
# Gives the rows among these ids that match, newest first, at most so many.
Matching = Callable[[Sequence[UUID], int], Sequence[Any]]


def scan(
    after: UUID | None,
    wanted: int,
    next_ids: NextIds,
    matching: Matching,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> ScanResult:
    """Look for so many matching rows, beginning behind an id.

    Args:
        after: None begins with the newest row.
    """
    until = clock() + MAX_SECONDS
    scanned = ScanResult(last=after)
    while not scanned.is_over and scanned.number < MOST_ROWS:
        looked_at = next_ids(scanned.last)
        if looked_at:
            scanned.rows += matching(looked_at, wanted - len(scanned.rows))
            scanned.last = looked_at[-1]
        scanned.number += len(looked_at)
        scanned.is_over = not looked_at or len(scanned.rows) >= wanted
        if clock() >= until:
            break
    return scanned
