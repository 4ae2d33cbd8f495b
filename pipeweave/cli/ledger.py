"""`pipeweave ledger`: say what the duration of a run was spent on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import seconds, show_json, show_table, text, width
from pipeweave.cli.support.run_options import pipeline_option
from pipeweave.cli.support.tables import GAP, Column, letters
from pipeweave.cli.support.timeline_picture import write_picture

if TYPE_CHECKING:
    from pipeweave.client import Client

# Steps that are listed, and the narrowest and the widest bar (letters).
STEPS_LISTED = 12
LEAST_BAR, MOST_BAR = 8, 40
_PERCENT = len("100 %")


@click.command(epilog=examples("pipeweave ledger latest", "pipeweave ledger prun_01m80arwk4e7 --json"))
@click.argument("run")
@pipeline_option
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the timeline of the run to this file, as a picture.",
)
@json_option
@connected
def ledger(client: Client, run: str, pipeline: str | None, svg: Path | None, as_json: bool) -> None:
    """Say what the duration of a run was spent on.

    That is work, attempts that failed, and each kind of wait. RUN is an id, the beginning of one, or
    `latest`. The sums add up to the time from the run's creation to its end, or until now, along its
    critical path.
    """
    run_id = id_arguments.run(client, run, pipeline)
    report = client.ledger(run_id)
    if svg is not None:
        write_picture(client, run_id, svg)
    if as_json:
        show_json(report)
        return
    so_far = " so far" if report["isOpen"] else ""
    click.echo(f"{report['runId']} {report['status']}: {seconds(report['totalMs'] / 1000)}{so_far}")
    click.echo()
    _show_sums(report["sums"], report["totalMs"])
    longest = sorted(report["steps"], key=lambda each: -each["ms"])[:STEPS_LISTED]
    shown = [each for each in report["steps"] if each in longest]
    if not shown:
        return
    click.echo()
    rows = [(_named(each), each["status"], seconds(each["ms"] / 1000), each["text"]) for each in shown]
    show_table(
        (Column("step"), Column("status", drop=1), Column("took"), Column("of which", wraps=True)), rows
    )
    if (more := report["pathLength"] - len(shown)) > 0:
        click.echo(f"and {more:,} more steps of the critical path, each of which took less")


def _named(step: Mapping[str, Any]) -> str:
    return step["stepId"] if step["mapIndex"] is None else f"{step['stepId']}[{step['mapIndex']}]"


def _show_sums(sums: Sequence[Mapping[str, Any]], total_ms: float) -> None:
    """A line for each sum: what, how long, its share, and a bar where there is room for one."""
    rows = [(text(each["label"]), seconds(each["ms"] / 1000), each["ms"] / (total_ms or 1)) for each in sums]
    labels = max((letters(label) for label, _, _ in rows), default=0)
    times = max((letters(time) for _, time, _ in rows), default=0)
    room = min(MOST_BAR, width() - labels - times - _PERCENT - 3 * len(GAP))
    for label, time, share in rows:
        bar = GAP + "#" * max(1, round(share * room)) if room >= LEAST_BAR else ""
        pad = " " * (labels - letters(label))
        click.echo(f"{label}{pad}{GAP}{time:>{times}}{GAP}{share * 100:>{_PERCENT - 2}.0f} %{bar}")
