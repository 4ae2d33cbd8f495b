"""What a benchmark is and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.rig import Rig


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
        """Ours / theirs; None where theirs is missing or was too small to see."""
        return self.values["ours"] / self.values[to] if self.values.get(to) else None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A name, which says the size where there is one, and how to measure it."""

    name: str
    measure: Callable[[Rig], Figures]
