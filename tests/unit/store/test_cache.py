"""Bounded caches: what they keep, what they drop, and what threads see of each other."""

from __future__ import annotations

import pytest
from support.concurrency import call_concurrently

from pipeweave.orchestrator.store.cache import Cache, Caches, CacheSpec
from pipeweave.orchestrator.store.timeline import Timeline

SQUARES = CacheSpec[int, int]("squares", 10)


def filled(capacity: int, *keys: int) -> Cache[int, int]:
    cache = Cache[int, int](capacity)
    for key in keys:
        cache.put(key, key * key)
    return cache


def test_the_cache_returns_cached_values_and_none_for_others() -> None:
    cache = filled(10, 2, 3)
    assert (cache.get(2), cache.get(3), cache.get(4)) == (4, 9, None)


def test_the_value_that_was_put_last_counts() -> None:
    cache = filled(4, *range(3))
    cache.put(0, 100)
    cache.put(1, 101)
    assert (cache.get(0), cache.get(1)) == (100, 101)


@pytest.mark.parametrize("capacity", [1, 2, 3, 10, 256])
def test_a_cache_never_holds_more_than_its_capacity(capacity: int) -> None:
    cache = Cache[int, int](capacity)
    for key in range(1, 3 * capacity):
        cache.put(key, key)
        cache.get(key - 2)
        assert len(cache) <= capacity


def test_the_entries_that_were_used_last_are_kept() -> None:
    cache = filled(10, *range(100))
    assert [cache.get(key) for key in range(95, 100)] == [key * key for key in range(95, 100)]
    assert cache.get(50) is None


def test_an_entry_that_is_used_outlives_any_number_of_others() -> None:
    cache = filled(10, 7)
    for key in range(100, 200):
        cache.put(key, key)
        assert cache.get(7) == 49


def test_each_database_has_caches_of_its_own() -> None:
    first, second = Caches(), Caches()
    first.of(SQUARES).put(2, 4)
    assert (first.of(SQUARES).get(2), second.of(SQUARES).get(2)) == (4, None)


def test_two_specs_of_the_same_name_are_two_caches() -> None:
    caches = Caches()
    caches.of(SQUARES).put(2, 4)
    assert caches.of(CacheSpec[int, int]("squares", 10)).get(2) is None


def test_threads_share_a_cache() -> None:
    cache = Cache[int, int](20)

    def use() -> int:
        for number in range(20_000):
            key = number % 30
            found = cache.get(key)
            assert found is None or found == key * key
            cache.put(key, key * key)
        return len(cache)

    assert all(each.result <= 20 for each in call_concurrently(use, use, use, use))


def test_after_a_promotion_nothing_is_known_and_what_is_put_late_into_an_old_cache_neither() -> None:
    timeline = Timeline()
    timeline.record("00000001")
    caches = Caches(timeline)
    old = caches.of(SQUARES)
    old.put(2, 4)
    timeline.record("00000001")
    assert caches.of(SQUARES).get(2) == 4

    timeline.record("00000002")
    assert caches.of(SQUARES).get(2) is None
    old.put(3, 9)
    assert caches.of(SQUARES).get(3) is None
    caches.of(SQUARES).put(4, 16)
    assert caches.of(SQUARES).get(4) == 16
