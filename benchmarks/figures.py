"""Define a benchmark and its figures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.environment import Environment


@dataclass(frozen=True, slots=True)
class Figures:
    """One benchmark's result: a figure in `unit` for `ours` and, where they take part, `celery` and
    `celery_tuned`.
    """

    unit: str
    values: Mapping[str, float]
    # More members of the benchmark's entry in the JSON document.
    more: Mapping[str, Any] = field(default_factory=dict)

    def ratio(self, to: str) -> float | None:
        """PipeWeave's figure / that of another system; None if that is missing or too small to measure."""
        return self.values["ours"] / self.values[to] if self.values.get(to) else None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: its name (with its size, if it has one) and the function that measures it."""

    name: str
    measure: Callable[[Environment], Figures]


def seconds_of(work: Callable[[], object]) -> float:
    """How long the work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that so many percent of the samples do not exceed."""
    return sorted(samples)[max(0, math.ceil(len(samples) * percent / 100) - 1)]


def middle(measured: Sequence[Figures]) -> Figures:
    """The figures whose own one is the middle of all, the lower of two."""
    return sorted(measured, key=lambda each: each.values["ours"])[(len(measured) - 1) // 2]
