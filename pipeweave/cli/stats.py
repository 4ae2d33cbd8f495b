"""`pipeweave stats`: what runs or attempts came to over the last hours or days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json, show_table, text, when
from pipeweave.durations import DURATION_EXPECTED, in_words, milliseconds

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

# Letters of a sparkline, so that the table fits into 80 columns.
LETTERS = 48
_BARS = "▁▂▃▄▅▆▇█"
_BUCKETS = ("1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "3h", "6h", "12h", "1d", "2d", "7d", "30d")
_RUNS: Sequence[str] = ("ended", "completed", "partial", "failed", "cancelled")
# Without --last, the shortest of these that holds all figures of a day, or the last if the day has none.
_DAY, _WITHIN_A_DAY, _BEYOND = "24h", ("15m", "1h", "3h", "8h"), "30d"
_ATTEMPTS: Sequence[str] = ("attempts", "completed", "failed", "timeout", "lost", "retried")


@click.command(
    epilog=examples(
        "pipeweave stats",
        "pipeweave stats --pipeline nightly --last 30d",
        "pipeweave stats --task charge --last 2h",
    )
)
@click.option("--pipeline", metavar="ID", help="Only the runs of this pipeline.")
@click.option("--task", metavar="ID", help="The attempts of this task instead of runs.")
@click.option(
    "--last",
    metavar="DURATION",
    help="How far back. Defaults to a day, or less or more where the figures are.",
)
@json_option
@connected
def stats(client: Client, pipeline: str | None, task: str | None, last: str | None, as_json: bool) -> None:
    """Show what runs or attempts came to over the last hours or days.

    A line of bars for each figure, the oldest first, and what it comes to in all. Quantiles (p50, p95) are
    approximate, within 12 %.
    """
    if pipeline is not None and task is not None:
        raise click.UsageError("give --pipeline or --task, not both")

    def ask(length: str) -> Document:
        ms = milliseconds(length)
        if ms is None:
            raise click.BadParameter(f"must be {DURATION_EXPECTED}", param_hint="--last")
        begin, bucket = datetime.now(UTC) - timedelta(milliseconds=ms), _bucket(ms)
        if task is None:
            return client.run_stats(pipeline, begin=begin, bucket=bucket)
        return client.task_stats(task, begin=begin, bucket=bucket)

    counted = _RUNS[0] if task is None else _ATTEMPTS[0]
    statistics = ask(last) if last is not None else _where_figures_are(ask, counted)
    if as_json:
        show_json(statistics)
        return
    what = f"attempts of {task}" if task else f"runs of {pipeline}" if pipeline else "all runs"
    click.echo(text(f"{what} since {when(statistics['from'])} UTC, each bar {statistics['bucket']}"))
    show_table(("", "over time", "in all"), _rows(statistics, is_of_task=task is not None))
    if statistics["isRebuilding"]:
        click.echo("The past is being counted anew: figures are not complete yet.", err=True)


def _where_figures_are(ask: Callable[[str], Document], counted: str) -> Document:
    """The figures of a day; of a part of it where all are younger, and of a month if there are none."""
    span, statistics = _DAY, ask(_DAY)
    if not any(each[counted] for each in statistics["points"]):
        return ask(_BEYOND)
    # A shorter span has shorter bars, which tell the age of the first figure better.
    while (shorter := _span_of(statistics, counted)) not in (span, None):
        span, statistics = shorter or span, ask(shorter or span)
    return statistics


def _span_of(statistics: Document, counted: str) -> str | None:
    """The shortest span of a part of a day that holds all figures; None if it is none of them."""
    times = [datetime.fromisoformat(each["at"]) for each in statistics["points"] if each[counted]]
    if not times:
        return None
    age_ms = (datetime.fromisoformat(statistics["to"]) - times[0]) / timedelta(milliseconds=1)
    return next((each for each in _WITHIN_A_DAY if age_ms <= (milliseconds(each) or 0)), None)


def _bucket(length_ms: int) -> str:
    fitting = (each for each in _BUCKETS if length_ms <= (LETTERS - 1) * (milliseconds(each) or 1))
    return next(fitting, _BUCKETS[-1])


def _rows(statistics: Document, *, is_of_task: bool) -> list[tuple[str, str, str]]:
    points, summary = statistics["points"], statistics["summary"]
    names = _ATTEMPTS if is_of_task else _RUNS
    rows = [
        (name, sparkline([each[name] for each in points]), f"{summary[name]:,}")
        for name in names
        if summary[name] or name == names[0]
    ]
    for label, part in (("took", "durationMs"), ("waited", "waitMs")):
        for quantile in ("p50", "p95"):
            if summary[part]["count"]:
                shown = sparkline([each[part][quantile] for each in points])
                rows.append((f"{label}, {quantile}", shown, f"≈ {_duration(summary[part][quantile])}"))
    rate = summary["successRate"]
    return rows if rate is None else [*rows, ("success", "", f"{rate:.1%}")]


def _duration(ms: Any) -> str:
    return f"{ms:.0f} ms" if ms < 1_000 else f"{ms / 1_000:.1f} s" if ms < 60_000 else in_words(round(ms))


def sparkline(values: Sequence[float | None]) -> str:
    """A letter for each value, the highest the whole height; nothing for none and for zero."""
    highest = max((value for value in values if value), default=0)
    return "".join(
        _BARS[min(len(_BARS) - 1, int(len(_BARS) * value / highest))] if value else " " for value in values
    )
