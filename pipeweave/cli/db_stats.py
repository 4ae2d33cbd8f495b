"""`pipeweave db stats`: how current the statistics are; counts the past anew."""

from __future__ import annotations

import sys

import click

from pipeweave.cli.support.connection import json_option, with_database
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_fields, show_json, when


@click.command(epilog=examples("pipeweave db stats --rebuild"))
@click.option("--rebuild", "is_rebuild", is_flag=True, help="Delete the sums, and count all events anew.")
@json_option
@with_database
def stats(database_url: str, is_rebuild: bool, as_json: bool) -> None:
    """Show how current the statistics are, or count the past anew.

    Everything goes on meanwhile. If it is interrupted, the same command goes on where it was. What belongs to
    months that were dropped, and the counters of metrics, stay as they are.
    """
    from pipeweave.orchestrator.store import Database
    from pipeweave.orchestrator.telemetry import statistics

    database = Database(database_url, pool_size=0)
    runs = statistics.rebuild(database, _tell) if is_rebuild else None
    with database.transaction() as tx:
        state = statistics.as_of(tx).to_json()
    if as_json:
        show_json({**state, "runs": runs})
        return
    show_fields(
        (
            ("counted until (UTC)", when(state["asOf"])),
            ("counted since (UTC)", when(state["since"])),
            ("history missed (UTC)", state["missedAt"] and when(state["missedAt"])),
            ("counted anew, runs", runs),
            ("under way", "the past is being counted anew" if state["isRebuilding"] else None),
        )
    )


def _tell(runs: int) -> None:
    """One line on a terminal, renewed."""
    if sys.stderr.isatty():
        click.echo(f"\r{runs:,} runs", nl=False, err=True)
