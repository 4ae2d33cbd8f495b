"""Measures what lies in a storage backend, by the beginnings of its paths, from a sample.

A bucket may hold very many objects, and tells their number only by listing all of them. So a few thousand of
each kind are looked at, and the answer says how exact it is: paths by content are spread evenly, so some of
their folders tell about all; of any other kind, more is `at least` so much.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.objects import paths
from pipeweave.storage import ObjectInfo, Storage
from pipeweave.storage.base import checked_prefix

# Objects of one beginning that are looked at, and of one request to the storage.
MOST_SEEN = 5_000
PAGE = 1_000
# How long one measurement looks (s), apart from the last answer of the storage.
BUDGET_S = 3.0
MOST_LARGEST = 10
# Of the folders `00` to `ff` of values, these tell about all.
BY_CONTENT = paths.PREFIXES[0]
_FOLDERS = 256
SAMPLED = tuple(f"{each:02x}" for each in range(0, _FOLDERS, 32))


@dataclass(slots=True)
class Use:
    """What was found of one beginning of paths.

    Args:
        bytes: of those objects.
        is_estimate: about so many, from some of their folders.
        is_capped: at least so many: not all of them were looked at.
    """

    prefix: str
    objects: int = 0
    bytes: int = 0
    newest: datetime | None = None
    is_estimate: bool = False
    is_capped: bool = False

    def add(self, entry: ObjectInfo) -> None:
        """Count an object."""
        self.objects += 1
        self.bytes += entry.size
        self.newest = max(self.newest or entry.modified_at, entry.modified_at)


@dataclass(slots=True)
class Usage:
    """What lies in a backend.

    Args:
        seen: the number of objects that were looked at.
        largest: the largest of them, the largest first.
    """

    parts: list[Use] = field(default_factory=list)
    seen: int = 0
    largest: Sequence[ObjectInfo] = ()


def measure(storage: Storage, prefix: str = "", *, clock: Callable[[], float] = time.monotonic) -> Usage:
    """Look at a sample of the objects that are ours.

    Args:
        prefix: only paths that begin with it.
        clock: seconds that only go forward.

    Raises:
        InvalidInput: none of our paths begins like this.
        Unavailable: storage cannot be reached.
    """
    measuring = _Measuring(storage, clock, clock() + BUDGET_S)
    usage = Usage([measuring.part(each) for each in _beginnings(prefix)])
    usage.seen, usage.largest = measuring.seen, measuring.largest
    return usage


def _beginnings(prefix: str) -> Sequence[str]:
    checked_prefix(prefix)
    wider = [each for each in paths.PREFIXES if each.startswith(prefix)]
    if wider or any(prefix.startswith(each) for each in paths.PREFIXES):
        return wider or [prefix]
    raise InvalidInput(
        f"no object of this deployment begins with {prefix[:200]!r}",
        errors=[FieldError("prefix", f"must begin with one of {', '.join(paths.PREFIXES)}", "unknown")],
    )


@dataclass(slots=True)
class _Measuring:
    storage: Storage
    clock: Callable[[], float]
    until: float
    seen: int = 0
    largest: list[ObjectInfo] = field(default_factory=list)

    def part(self, prefix: str) -> Use:
        use = Use(prefix)
        use.is_capped = not self._count(use, self._listed(prefix, MOST_SEEN))
        return self._estimate(prefix) if use.is_capped and prefix == BY_CONTENT else use

    def _estimate(self, prefix: str) -> Use:
        use = Use(prefix, is_estimate=True)
        for each in SAMPLED:
            if not self._count(use, self._listed(f"{prefix}{each}/", MOST_SEEN // len(SAMPLED))):
                use.is_capped = True
        use.objects = use.objects * _FOLDERS // len(SAMPLED)
        use.bytes = use.bytes * _FOLDERS // len(SAMPLED)
        return use

    def _count(self, use: Use, listed: Iterable[ObjectInfo | None]) -> bool:
        """Count what is listed; whether that is all: a list that ends with None is not."""
        for entry in listed:
            if entry is None:
                return False
            use.add(entry)
            self.seen += 1
            if len(self.largest) < MOST_LARGEST or entry.size > self.largest[-1].size:
                largest = {each.path: each for each in (*self.largest, entry)}
                self.largest = heapq.nlargest(MOST_LARGEST, largest.values(), key=lambda each: each.size)
        return True

    def _listed(self, prefix: str, most: int) -> Iterator[ObjectInfo | None]:
        after, left = "", most
        while True:
            if left <= 0 or self.clock() > self.until:
                yield None
                return
            page = self.storage.list(prefix, after=after, limit=min(PAGE, left))
            yield from page
            if len(page) < min(PAGE, left):
                return
            left -= len(page)
            after = page[-1].path
