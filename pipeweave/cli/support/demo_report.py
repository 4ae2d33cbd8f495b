"""Print the demo's report and the commands to try next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.rendering import seconds, show_list

if TYPE_CHECKING:
    from pipeweave.client import Run

SHOWN_PACKAGES = 12

Row = Mapping[str, Any]


def show_report(report: Mapping[str, Any], run: Run, total_s: float) -> None:
    """Print the report as a table with totals, the largest files, and the durations."""
    packages, totals = report["packages"], report["totals"]
    shown: list[Row] = [*packages[:SHOWN_PACKAGES]]
    if len(packages) > SHOWN_PACKAGES:
        shown.append(_rest(packages[SHOWN_PACKAGES:]))
    shown.append({**totals, "package": f"all of Python {report['python']}"})
    click.echo()
    show_list("packages", shown, _cells("package"), as_json=False)
    if totals["unreadable"]:
        click.echo(f"{totals['unreadable']} files could not be decoded or parsed.")
    largest = ", ".join(f"{row['path']} ({row['tokens']:,})" for row in report["largest"][:3])
    click.echo(f"Most tokens: {largest}")
    task_runs = sum(run.counts.values())
    duration = _duration(run)
    rate = f", {task_runs / duration:,.0f} a second" if duration else ""
    click.echo(
        f"{task_runs:,} task runs in {seconds(duration)}{rate}; {seconds(total_s)} including the start."
    )


def next_steps(folder: Path, run: Run, *, is_kept: bool) -> None:
    """Print commands to try next."""
    where = f"--data-dir {folder}"
    kept = [
        (f"pipeweave open {run.id} {where}", "this run in the dashboard"),
        (f"pipeweave status {run.id} {where}", "this run"),
        (f"pipeweave pipelines show stdlib-report {where}", "its steps"),
        (f"pipeweave trigger stdlib-report --wait {where}", "run it again"),
        (f"pipeweave ps {where}", "the processes"),
        (f"pipeweave down {where}", "stop everything"),
    ]
    fresh = [
        ("pipeweave demo --keep", "the same, and leave everything running"),
        ("pipeweave init hello", "create a project: tasks, a pipeline, tests"),
        ("pipeweave up --app hello/tasks.py", "run it"),
    ]
    lines = kept if is_kept else fresh
    width = max(len(command) for command, _ in lines)
    click.echo("\nNext steps:")
    for command, about in lines:
        click.echo(f"  {command:<{width}}  {about}")
    click.echo()


def _cells(first: str) -> dict[str, Callable[[Row], Any]]:
    def number(name: str) -> Callable[[Row], str]:
        return lambda row: f"{row[name]:,}"

    return {
        first: lambda row: row[first],
        "files": number("files"),
        "lines": number("lines"),
        "tokens": number("tokens"),
        "classes": number("classes"),
        "functions": number("functions"),
        "docstrings": lambda row: (
            f"{100 * row['documented'] / row['definitions']:.0f} %" if row["definitions"] else None
        ),
    }


def _rest(packages: list[Row]) -> Row:
    names = ("files", "lines", "tokens", "classes", "functions", "definitions", "documented")
    sums = {name: sum(row[name] for row in packages) for name in names}
    return {**sums, "package": f"{len(packages)} more"}


def _duration(run: Run) -> float:
    from datetime import datetime

    started, finished = run.document.get("startedAt"), run.document.get("finishedAt")
    if not started or not finished:
        return 0.0
    return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
