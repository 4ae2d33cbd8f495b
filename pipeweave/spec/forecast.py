"""Forecast how long a run takes, from how long the steps of past runs took. Pure.

Each past run is played over the graph as it is now: a step begins when the last of its predecessors has
ended, and takes as long as it took in that run. So what goes together in a run, such as a large input, stays
together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pipeweave.spec.graph import Graph
from pipeweave.spec.pipeline_spec import PipelineSpec

# With fewer runs than this, a forecast says so: a p95 of them would be their longest.
FEW_RUNS = 10


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that completed.

    Args:
        took_ms: the whole run, with its waits (ms).
        steps: how long each step that ran took (ms). What is neither there nor skipped is not known, such as
            a step that the version did not have, or a result that was taken over.
        skipped: the steps that were skipped.
    """

    took_ms: float
    steps: Mapping[str, float]
    skipped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle and the long end of some durations (ms); None without any.

    Args:
        runs: how many durations there are.
    """

    runs: int
    p50_ms: float | None
    p95_ms: float | None

    @classmethod
    def of(cls, durations: Sequence[float]) -> Spread:
        """The spread of these durations (ms)."""
        if not durations:
            return cls(0, None, None)
        return cls(len(durations), median(durations), percentile(durations, 0.95))

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "tooFewRuns": self.runs < FEW_RUNS,
            "p50Ms": _rounded(self.p50_ms),
            "p95Ms": _rounded(self.p95_ms),
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long a run will probably take.

    Args:
        run: the past runs, played over the graph; without waits for workers.
        past: the past runs as they were, with their waits.
        steps: each step, where it ran.
        critical_path: the steps whose usual durations add up to the longest path, in their order.
    """

    run: Spread
    past: Spread
    steps: Mapping[str, Spread]
    critical_path: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.run.to_json(),
            "pastRuns": {"p50Ms": _rounded(self.past.p50_ms), "p95Ms": _rounded(self.past.p95_ms)},
            "criticalPath": list(self.critical_path),
            "steps": [{"id": step, **spread.to_json()} for step, spread in self.steps.items()],
        }


def forecast(spec: PipelineSpec, past: Sequence[PastRun]) -> Forecast:
    """Forecast a run of a pipeline.

    Args:
        spec: a valid pipeline. It need not be the version that the past runs had.
        past: its completed runs.

    Raises:
        InvalidSpec: the steps are no graph.
    """
    graph = Graph(spec)
    spreads = {
        step.id: Spread.of([each.steps[step.id] for each in past if step.id in each.steps])
        for step in spec.steps
    }
    usual = {step: spread.p50_ms or 0.0 for step, spread in spreads.items()}
    played = [_longest(graph, _durations(usual, each))[0] for each in past]
    _, path = _longest(graph, usual)
    return Forecast(Spread.of(played), Spread.of([each.took_ms for each in past]), spreads, path)


def usual_ms(spec: PipelineSpec, past: Sequence[PastRun]) -> dict[str, float | None]:
    """How long each step took in half of the past runs (ms); None: it is not known."""
    medians: dict[str, float | None] = {}
    for step in spec.steps:
        took = [each.steps[step.id] for each in past if step.id in each.steps]
        medians[step.id] = median(took) if took else None
    return medians


def longest_ms(graph: Graph, durations: Mapping[str, float]) -> float:
    """The length of the longest path (ms) with these durations of its steps."""
    return _longest(graph, durations)[0]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that so large a share of them does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _durations(usual: Mapping[str, float], run: PastRun) -> Mapping[str, float]:
    return {
        step: 0.0 if step in run.skipped else run.steps.get(step, duration)
        for step, duration in usual.items()
    }


def _longest(graph: Graph, durations: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
    """The length of the longest path, and its steps; of equal paths the one with the most steps."""
    ends: dict[str, tuple[float, int]] = {}
    before: dict[str, str | None] = {}
    for step in graph.order:
        latest = max(graph.predecessors[step], key=ends.__getitem__, default=None)
        before[step] = latest
        began, number = (0.0, 0) if latest is None else ends[latest]
        ends[step] = (began + durations[step], number + 1)
    last = max(graph.order, key=ends.__getitem__, default=None)
    length = 0.0 if last is None else ends[last][0]
    path: list[str] = []
    while last is not None:
        path.append(last)
        last = before[last]
    return length, tuple(reversed(path))


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 1)
