"""Makes the documents of statistics. Quantiles are approximate, counts and means exact (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.orchestrator.documents.statistics import Counted, RunFigures, TaskFigures
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.telemetry.statistics.histogram import Durations
from pipeweave.orchestrator.telemetry.statistics.place import AsOf
from pipeweave.orchestrator.telemetry.statistics.tallies import OUTCOMES, RUN_ENDS, Tally
from pipeweave.orchestrator.telemetry.statistics.windows import StatsWindow

# How statuses and outcomes are named in documents.
WORDS = {"timed_out": "timeout"}


def durations(histogram: Durations) -> Document:
    """`DurationsMs`; without any, all but the count are null. Written out: an answer has thousands."""
    return {
        "count": histogram.count,
        "min": _ms(histogram.least),
        "max": _ms(histogram.most),
        "mean": _ms(histogram.mean),
        "p50": _ms(histogram.quantile(0.5)),
        "p95": _ms(histogram.quantile(0.95)),
        "p99": _ms(histogram.quantile(0.99)),
    }


def _ms(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def share(part: int, whole: int) -> float | None:
    """A part of a whole, 0 to 1; None of nothing."""
    return round(part / whole, 4) if whole else None


def ended_runs(tally: Tally) -> int:
    """How many runs ended."""
    return sum(tally.counts.get(name, 0) for name in RUN_ENDS)


def runs(tally: Tally, answer: type[RunFigures] = RunFigures, /, **more: Any) -> Document:
    """The runs of a tally. The success rate leaves cancelled runs out."""
    numbers = {name: tally.counts.get(name, 0) for name in ("created", "started", *RUN_ENDS)}
    ended = ended_runs(tally)
    return answer.of(
        **numbers,
        ended=ended,
        success_rate=share(numbers["completed"], ended - numbers["cancelled"]),
        duration_ms=durations(tally.took),
        wait_ms=durations(tally.wait),
        **more,
    )


def ended_attempts(tally: Tally) -> int:
    """How many attempts ended."""
    return sum(tally.counts.get(name, 0) for name in OUTCOMES)


def attempts(tally: Tally, answer: type[TaskFigures] = TaskFigures, /, **more: Any) -> Document:
    """The attempts of a tally.

    The success rate leaves out attempts that were cancelled, or interrupted because their worker stopped.
    """
    numbers = {WORDS.get(name, name): tally.counts.get(name, 0) for name in OUTCOMES}
    ended = ended_attempts(tally)
    judged = ended - numbers["cancelled"] - numbers["interrupted"]
    return answer.of(
        attempts=ended,
        **numbers,
        retried=tally.counts.get("retried", 0),
        cached=tally.counts.get("cached", 0),
        dead_letters=tally.counts.get("dead", 0),
        redriven=tally.counts.get("redriven", 0),
        success_rate=share(numbers["completed"], judged),
        duration_ms=durations(tally.took),
        wait_ms=durations(tally.wait),
        errors=by_code(tally),
        **more,
    )


def by_code(tally: Tally) -> Mapping[str, int]:
    """Error code -> attempts, the most frequent first."""
    counts: dict[str, int] = {}
    for name, number in tally.codes.items():
        code = name.partition("/")[2]
        counts[code] = counts.get(code, 0) + number
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def window(answer: type[Counted], chosen: StatsWindow, as_of: AsOf, **more: Any) -> Document:
    """What was counted in a window."""
    return answer.of(as_of, from_=chosen.begin, to=chosen.end, bucket=chosen.step, as_of=as_of.at, **more)
