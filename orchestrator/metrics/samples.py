"""Holds the values of metrics, and puts those together that a bounded label has no room for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add
from typing import TypeVar

from pipeweave.orchestrator.metrics.catalogue import OTHER, TENANT, Family, MetricKind

# The values of a bounded label that one tenant has, and the tenants that one answer has.
MOST_NAMES = 200
MOST_TENANTS = 200

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How long things took, or how large they were.

    Args:
        counts: how many there are up to each bound of the family, and in the end how many there are.
        total: the sum of all.
    """

    counts: tuple[int, ...]
    total: float

    @classmethod
    def of(cls, numbers: Sequence[int], total: float) -> Histogram:
        """A histogram of how many there are between two bounds."""
        return cls(tuple(accumulate(numbers)), total)

    def __add__(self, other: Histogram) -> Histogram:
        counts = tuple(mine + its for mine, its in zip(self.counts, other.counts, strict=True))
        return Histogram(counts, self.total + other.total)


V = TypeVar("V", float, Histogram)


@dataclass(slots=True)
class Samples:
    """The values of metrics, by family and labels.

    Args:
        values: of gauges and counters.
        histograms: of histograms.
        first: (label, tenant) -> its values, those that came into use first before the others; (`tenant`, "")
            -> the tenants that are shown. What only grows shows the first ones and adds up the others: if the
            choice changed, the sum of the others would go back.
    """

    values: dict[Family, dict[Labels, float]] = field(default_factory=dict)
    histograms: dict[Family, dict[Labels, Histogram]] = field(default_factory=dict)
    first: dict[tuple[str, str], Collection[str]] = field(default_factory=dict)

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add to a value, or raise it where the family takes the greatest one."""
        rows = self.values.setdefault(family, {})
        rows[labels] = _join_of(family)(rows[labels], value) if labels in rows else value

    def observe(self, family: Family, histogram: Histogram, *labels: str) -> None:
        """Add to a histogram."""
        rows = self.histograms.setdefault(family, {})
        rows[labels] = rows[labels] + histogram if labels in rows else histogram

    def know(self, family: Family) -> None:
        """Have this family, with its name and meaning, even if it has no value."""
        rows = self.histograms if family.kind is MetricKind.HISTOGRAM else self.values
        rows.setdefault(family, {})

    def merge(self, other: Samples) -> None:
        """Take over values that are not here yet."""
        for family, rows in other.values.items():
            self.values.setdefault(family, {}).update(rows)
        for family, timed in other.histograms.items():
            self.histograms.setdefault(family, {}).update(timed)
        self.first.update(other.first)

    def of(self, tenants: Collection[str] | None) -> Samples:
        """What a token may see, with bounded labels.

        Args:
            tenants: those that it may read; None: every tenant, and the deployment itself.
        """
        made = Samples()
        for family, rows in self.values.items():
            if tenants is None or family.is_of_tenants:
                made.values[family] = self._bounded(family, _of(rows, tenants), _join_of(family), float)
        for family, timed in self.histograms.items():
            made.histograms[family] = self._bounded(family, _of(timed, tenants), add, _number)
        return made

    def _bounded(
        self,
        family: Family,
        rows: Mapping[Labels, V],
        join: Callable[[V, V], V],
        weight: Callable[[V], float],
    ) -> dict[Labels, V]:
        tenants = self.first.get((TENANT, ""))
        shown = self._shown(family, rows, weight)
        place = 0 if family.of is None else family.labels.index(family.of)
        made: dict[Labels, V] = {}
        for labels, value in rows.items():
            if family.is_of_tenants and tenants is not None and labels[0] not in tenants:
                labels = _without(_without(labels, place), 0)
            elif labels[:1] and labels[place] not in shown.get(labels[0], labels):
                labels = _without(labels, place)
            made[labels] = join(made[labels], value) if labels in made else value
        return made

    def _shown(
        self, family: Family, rows: Mapping[Labels, V], weight: Callable[[V], float]
    ) -> dict[str, Collection[str]]:
        """Tenant -> the values of the bounded label that are shown. No tenant: all of its values are."""
        if family.of is None:
            return {}
        place = family.labels.index(family.of)
        weights: dict[str, Counter[str]] = defaultdict(Counter)
        for labels, value in rows.items():
            weights[labels[0]][labels[place]] += weight(value)  # type: ignore[assignment]
        return {
            tenant: self._chosen(family, tenant, names)
            for tenant, names in weights.items()
            if len(names) > MOST_NAMES
        }

    def _chosen(self, family: Family, tenant: str, names: Counter[str]) -> Collection[str]:
        if family.kind is MetricKind.GAUGE:
            return {name for name, _ in names.most_common(MOST_NAMES)}
        first = self.first.get((family.of or "", tenant)) or sorted(names)
        return set(list(first)[:MOST_NAMES])


def _of(rows: Mapping[Labels, V], tenants: Collection[str] | None) -> Mapping[Labels, V]:
    if tenants is None:
        return rows
    return {labels: value for labels, value in rows.items() if labels[0] in tenants}


def _join_of(family: Family) -> Callable[[float, float], float]:
    return max if family.is_greatest else add


def _number(histogram: Histogram) -> float:
    return histogram.counts[-1]


def _without(labels: Labels, place: int) -> Labels:
    return (*labels[:place], OTHER, *labels[place + 1 :])
