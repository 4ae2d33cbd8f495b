"""Histograms of durations: ten buckets a decade, from 1 ms to 27 hours (pure).

Bucket `i` holds durations from 10^(i/10) ms up to those of the next bucket; the first one also holds those
below, the last one those above. A quantile is within 12 % of the true one. Histograms add up: that of a day
is the sum of those of its minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

BUCKETS = 80
PER_DECADE = 10
# How far a quantile may be off: buckets are told by the value that is equally far, in parts, from both ends.
QUANTILE_ERROR = 0.12


def bucket_of(ms: float) -> int:
    """The bucket of a duration (ms)."""
    return min(BUCKETS - 1, max(0, math.floor(PER_DECADE * math.log10(max(1.0, ms)))))


def bucket_sql(ms: str) -> str:
    """SQL: the bucket of a duration.

    Args:
        ms: SQL of the duration (ms); NULL has no bucket.
    """
    # greatest() takes the other value for NULL.
    bucket = f"CAST(floor({PER_DECADE} * log(greatest(1, CAST({ms} AS double precision)))) AS integer)"
    return f"CASE WHEN {ms} IS NOT NULL THEN least({BUCKETS - 1}, {bucket}) END"


def lower_edge(bucket: int) -> float:
    """The shortest duration (ms) of a bucket; of the first one 0."""
    return 0.0 if bucket <= 0 else _edge(bucket)


def upper_edge(bucket: int) -> float:
    """The duration (ms) that a bucket ends before; of the last one infinity."""
    return math.inf if bucket >= BUCKETS - 1 else _edge(bucket + 1)


def _edge(bucket: int) -> float:
    return math.pow(10, bucket / PER_DECADE)


def _middle(bucket: int) -> float:
    low, high = _edge(bucket), _edge(bucket + 1)
    return 2 * low * high / (low + high)


@dataclass(slots=True)
class Durations:
    """Durations (ms) that were added up.

    Args:
        buckets: how many are in each bucket that has any.
        total: their sum.
        least: the shortest; None without any.
        most: the longest; None without any.
    """

    buckets: dict[int, int] = field(default_factory=dict)
    total: float = 0.0
    least: float | None = None
    most: float | None = None

    @classmethod
    def of_row(cls, row: Any, name: str) -> Durations:
        """The durations of a row with the columns `name`, `name_sum`, `name_min` and `name_max`."""
        buckets = {int(bucket): number for bucket, number in getattr(row, name).items()}
        edges = getattr(row, f"{name}_min"), getattr(row, f"{name}_max")
        return cls(buckets, getattr(row, f"{name}_sum"), *edges)

    def to_row(self, name: str) -> dict[str, Any]:
        """The columns of `of_row`."""
        buckets = {str(bucket): number for bucket, number in sorted(self.buckets.items())}
        return {
            name: buckets,
            f"{name}_sum": self.total,
            f"{name}_min": self.least,
            f"{name}_max": self.most,
        }

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(self.buckets.values())

    @property
    def mean(self) -> float | None:
        """Their mean (ms), exactly; None without any."""
        count = self.count
        return self.total / count if count else None

    def quantile(self, share: float) -> float | None:
        """The duration (ms) that this share of them does not exceed, within QUANTILE_ERROR; None without any.

        What is shorter than 1 ms counts as at most 1 ms. Once one is longer than 27 hours, all of the last
        bucket count as the longest: it has no upper edge that could tell them apart.
        """
        rank = math.ceil(share * self.count)
        for bucket, number in sorted(self.buckets.items()):
            rank -= number
            if rank <= 0:
                return self._within(self._estimate(bucket))
        return None

    def _estimate(self, bucket: int) -> float:
        if bucket == BUCKETS - 1 and self.most is not None and self.most > _edge(BUCKETS):
            return self.most
        return _middle(bucket)

    def _within(self, ms: float) -> float:
        """A duration that is not beyond the shortest and the longest, which are exact."""
        return min(max(ms, self.least or 0.0), math.inf if self.most is None else self.most)

    def add(self, other: Durations) -> None:
        """Add the durations of another histogram to this one."""
        for bucket, number in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + number
        self.total += other.total
        self.least = _either(min, self.least, other.least)
        self.most = _either(max, self.most, other.most)


def _either(choose: Any, one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return choose(known) if known else None


def of_durations(durations: Iterable[float]) -> Durations:
    """The histogram of single durations (ms)."""
    added = Durations()
    for ms in durations:
        added.add(Durations({bucket_of(ms): 1}, ms, ms, ms))
    return added


def added_sql(one: str, other: str) -> str:
    """SQL: the sum of two `{name: number}` objects.

    Args:
        one, other: SQL of the objects.
    """
    return f"""(SELECT coalesce(jsonb_object_agg(b.name, b.number), '{{}}') FROM (
        SELECT u.name, sum(CAST(u.number AS bigint)) AS number
        FROM (SELECT * FROM jsonb_each_text({one}) UNION ALL SELECT * FROM jsonb_each_text({other}))
            AS u(name, number) GROUP BY u.name) AS b)"""


def add_counts(counts: dict[str, int], more: Mapping[str, int]) -> None:
    """Add numbers by name to others."""
    for name, number in more.items():
        counts[name] = counts.get(name, 0) + number
