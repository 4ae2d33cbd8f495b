"""Histograms of how many task runs a run has: 1, 2, 5, 10 and so on, to a million (pure).

Bucket `i` holds the sizes above bound `i - 1` and up to bound `i`; the last one those above the last bound.
"""

from __future__ import annotations

from bisect import bisect_left

BOUNDS = (*(first * 10**power for power in range(6) for first in (1, 2, 5)), 1_000_000)


def bucket_of(size: int) -> int:
    """The bucket of a size."""
    return bisect_left(BOUNDS, size)


def bucket_sql(size: str) -> str:
    """SQL: the bucket of a size.

    Args:
        size: SQL of the size, an integer; NULL has no bucket.
    """
    return f"width_bucket({size} - 1, ARRAY[{', '.join(map(str, BOUNDS))}])"
