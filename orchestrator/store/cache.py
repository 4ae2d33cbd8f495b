"""Caches rows of one database in a process, up to a bounded number of entries.

A room that caches rows declares a `CacheSpec`; `Database` owns the caches, so two databases in one process
never share an entry. A value that depends on a transaction's writes is cached after the commit
(`Transaction.cache_after_commit`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pipeweave.orchestrator.store.timeline import Timeline

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class CacheSpec(Generic[K, V]):
    """Declares a cache of values `V` by keys `K`.

    Args:
        name: names the entries, for people.
        capacity: the largest number of entries.
    """

    name: str
    capacity: int


class Cache(Generic[K, V]):
    """Keeps the most recently used entries, at most `capacity`. Threads may share a cache.

    Entries live in two generations. A used entry moves to the young generation; when that has half of the
    capacity, it replaces the old generation. So the `capacity // 2` entries that were used last are always
    cached, and a read of a young entry is one lookup in a dictionary, without a lock.
    """

    __slots__ = ("_half", "_lock", "_old", "_young")

    def __init__(self, capacity: int) -> None:
        self._half = max(1, capacity // 2)
        self._lock = threading.Lock()
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The value of a key; None when it is not cached."""
        value = self._young.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            return self._put(key, value, is_newer=False)
        return value

    def of_each(self, keys: Iterable[K]) -> list[V | None]:
        """The values of keys, as `get` gives them, with one call for all that were used lately."""
        young = self._young
        return [young[each] if each in young else self.get(each) for each in keys]

    def put(self, key: K, value: V) -> None:
        """Cache a value, which must not be None."""
        self._put(key, value, is_newer=True)

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def _put(self, key: K, value: V, *, is_newer: bool) -> V:
        with self._lock:
            # A thread that moves an entry out of the old generation must not undo a later `put`.
            if is_newer:
                self._young[key] = value
            else:
                value = self._young.setdefault(key, value)
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            return value


class Caches:
    """The caches of one database, each made when it is first used, and anew after a promotion: what was read
    from the old server, the new one may never have got.

    Args:
        timeline: of the database.
    """

    def __init__(self, timeline: Timeline | None = None) -> None:
        self._timeline = timeline or Timeline()
        self._promotions = self._timeline.promotions
        self._caches: dict[CacheSpec[Any, Any], Cache[Any, Any]] = {}
        self._own: dict[Callable[[], Any], Any] = {}

    def of(self, spec: CacheSpec[K, V]) -> Cache[K, V]:
        """The cache that a spec declares. Who holds one through a promotion puts its values nowhere."""
        if self._promotions != self._timeline.promotions:
            # In this order: of two threads neither goes on with the old ones.
            self._caches = {}
            self._promotions = self._timeline.promotions
        cache = self._caches.get(spec)
        return self._caches.setdefault(spec, Cache(spec.capacity)) if cache is None else cache

    def own(self, kind: Callable[[], V]) -> V:
        """The one object of a class for this database, such as what it knows of work under way; it is made
        when it is first asked for, and closed with the database if it has a `close`.
        """
        if kind not in self._own:
            self._own.setdefault(kind, kind())
        own: V = self._own[kind]
        return own

    def close(self) -> None:
        """Close and forget what is owned."""
        while self._own:
            _, each = self._own.popitem()
            getattr(each, "close", lambda: None)()
