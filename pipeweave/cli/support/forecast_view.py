"""Show the forecast of a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from pipeweave.cli.support.rendering import seconds, show_table, text
from pipeweave.cli.support.tables import Column

# Steps that are shown, the slowest ones.
MOST_FORECAST = 30


def show_forecast(forecast: Mapping[str, Any]) -> None:
    """Show how long the run and its slowest steps will probably take."""
    if not forecast["runs"]:
        click.echo("forecast: none, no run has completed yet")
        return
    few = ", too few to rely on" if forecast["tooFewRuns"] else ""
    runs = "the last run" if forecast["runs"] == 1 else f"the last {forecast['runs']} runs"
    click.echo(f"forecast: {_took(forecast)}; from {runs}{few}")
    click.echo(f"with their waits they took: {_took(forecast['pastRuns'])}")
    critical = set(forecast["criticalPath"])
    slowest = sorted(forecast["steps"], key=lambda each: -(each["p95Ms"] or 0))[:MOST_FORECAST]
    show_table(
        (Column("step", wraps=True), "p50", "p95", "runs", "critical"),
        [
            (
                text(each["id"]),
                _ms(each["p50Ms"]),
                _ms(each["p95Ms"]),
                f"{each['runs']}{' (too few)' if each['tooFewRuns'] else ''}",
                "yes" if each["id"] in critical else "",
            )
            for each in slowest
        ],
    )
    if left := len(forecast["steps"]) - len(slowest):
        click.echo(f"and {left:,} steps that take less; --json shows all")


def _took(spread: Mapping[str, Any]) -> str:
    return f"p50 {_ms(spread['p50Ms'])}, p95 {_ms(spread['p95Ms'])}"


def _ms(duration: float | None) -> str:
    return "-" if duration is None else seconds(duration / 1000)
