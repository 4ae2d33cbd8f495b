"""Statistics as camelCase documents. Quantiles are approximate, counts and means exact (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.telemetry.statistics.histogram import Durations
from pipeweave.orchestrator.telemetry.statistics.place import AsOf
from pipeweave.orchestrator.telemetry.statistics.series import Series
from pipeweave.orchestrator.telemetry.statistics.tallies import OUTCOMES, RUN_ENDS, Tally
from pipeweave.orchestrator.telemetry.statistics.windows import StatsWindow

# How statuses and outcomes are named in documents.
WORDS = {"timed_out": "timeout"}


def durations(histogram: Durations) -> Document:
    """{count, min, max, mean, p50, p95, p99} in ms; without any, all but the count are null."""
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


def runs(tally: Tally) -> Document:
    """{created, started, ended, completed, partial, failed, cancelled, successRate, durationMs, waitMs}.

    The success rate leaves cancelled runs out.
    """
    numbers = {name: tally.counts.get(name, 0) for name in ("created", "started", *RUN_ENDS)}
    ended = sum(numbers[name] for name in RUN_ENDS)
    return {
        **numbers,
        "ended": ended,
        "successRate": share(numbers["completed"], ended - numbers["cancelled"]),
        "durationMs": durations(tally.took),
        "waitMs": durations(tally.wait),
    }


def attempts(tally: Tally) -> Document:
    """{attempts, completed, failed, timeout, lost, interrupted, cancelled, retried, cached, deadLetters,
    redriven, successRate, durationMs, waitMs, errors}.

    The success rate leaves out attempts that were cancelled, or interrupted because their worker stopped.
    """
    numbers = {WORDS.get(name, name): tally.counts.get(name, 0) for name in OUTCOMES}
    ended = sum(numbers.values())
    judged = ended - numbers["cancelled"] - numbers["interrupted"]
    return {
        "attempts": ended,
        **numbers,
        "retried": tally.counts.get("retried", 0),
        "cached": tally.counts.get("cached", 0),
        "deadLetters": tally.counts.get("dead", 0),
        "redriven": tally.counts.get("redriven", 0),
        "successRate": share(numbers["completed"], judged),
        "durationMs": durations(tally.took),
        "waitMs": durations(tally.wait),
        "errors": by_code(tally),
    }


def by_code(tally: Tally) -> Mapping[str, int]:
    """Error code -> attempts, the most frequent first."""
    counts: dict[str, int] = {}
    for name, number in tally.codes.items():
        code = name.partition("/")[2]
        counts[code] = counts.get(code, 0) + number
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def current(as_of: AsOf) -> Document:
    """{asOf, since, missedAt, isRebuilding}."""
    return {
        "asOf": iso(as_of.at),
        "since": iso(as_of.since),
        "missedAt": iso(as_of.missed_at),
        "isRebuilding": as_of.is_rebuilding,
    }


def window(chosen: StatsWindow, as_of: AsOf) -> Document:
    """{from, to, bucket, asOf, …}."""
    return {
        "from": iso(chosen.begin),
        "to": iso(chosen.end),
        "bucket": chosen.step,
        **current(as_of),
    }


def series(history: Series, as_of: AsOf, shown: Callable[[Tally], Document]) -> Document:
    """{from, to, bucket, asOf, …, points, summary}.

    Args:
        shown: the document of a tally: `runs` or `attempts`.
    """
    points: list[Any] = [{"at": iso(at), **shown(tally)} for at, tally in history.points]
    return {**window(history.window, as_of), "points": points, "summary": shown(history.sum)}
