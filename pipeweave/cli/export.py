"""`pipeweave export`: write runs, task runs, attempts, events or logs as lines of JSON."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected
from pipeweave.cli.support.export_file import ExportFile
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.token import Lifetime

if TYPE_CHECKING:
    from pipeweave.client import Client

_KINDS = ("runs", "task-runs", "attempts", "events", "logs")


@click.command(
    epilog=examples(
        "pipeweave export events --run latest",
        "pipeweave export task-runs --since 7d -o steps.ndjson",
        "pipeweave export task-runs -o steps.ndjson --resume",
    )
)
@click.argument("kind", type=click.Choice(_KINDS), metavar="KIND")
@click.option("--run", help="Only this run: an id, the beginning of one, or `latest`.")
@click.option("--pipeline", help="Only runs of this pipeline.")
@click.option("--status", metavar="STATUS", help="Only runs in this status.")
@click.option("--since", type=Lifetime(), help="Only runs created at most this long ago, or since a time.")
@click.option("--until", type=Lifetime(), help="Only runs created longer ago than this, or before a time.")
@click.option("--standalone", is_flag=True, help="Standalone tasks instead of runs of pipelines.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of the standard output.",
)
@click.option("--resume", is_flag=True, help="Go on with the file where an export was interrupted.")
@click.option("--json", "_as_json", is_flag=True, help="Print JSON, as always.")
@connected
def export(
    client: Client, kind: str, output: Path | None, resume: bool, _as_json: bool, **options: Any
) -> None:
    """Write runs and what belongs to them as lines of JSON.

    KIND is runs, task-runs, attempts, events or logs. The oldest run comes first. A broken connection does
    not end it. With --output, an export that was interrupted goes on with --resume, with the same filters.
    """
    if resume and output is None:
        raise click.UsageError("--resume needs --output: the file to go on with")
    if output is None:
        count = _write(client, kind, sys.stdout.buffer, _filters(client, options))
    elif resume:
        count = _write_file(client, ExportFile.interrupted(output, kind))
    else:
        count = _write_file(client, ExportFile.new(output, kind, _filters(client, options)))
    click.echo(f"{count:,} {kind if kind != 'logs' else 'lines of logs'} exported", err=True)


def _filters(client: Client, options: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the API; times that are given as ages become times."""
    run = options["run"]
    now = datetime.now(UTC)
    given = {
        "run": None if run is None else id_arguments.run(client, run, None),
        "pipelineId": options["pipeline"],
        "status": options["status"],
        "createdAfter": time_of(options["since"], now),
        "createdBefore": time_of(options["until"], now),
        "standalone": True if options["standalone"] else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def time_of(given: timedelta | datetime | None, now: datetime) -> str | None:
    """A time, or one so long ago, as the API takes it."""
    if given is None:
        return None
    moment = now - given if isinstance(given, timedelta) else given
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _write(client: Client, kind: str, out: BinaryIO, filters: dict[str, Any]) -> int:
    count = 0
    for page in client.export_pages(kind, **filters):
        out.writelines(line + b"\n" for line in page.lines)
        out.flush()
        count += len(page.lines)
    return count


def _write_file(client: Client, file: ExportFile) -> int:
    with file.opened() as out:
        for page in client.export_pages(file.kind, after=file.cursor, **file.filters):
            out.writelines(line + b"\n" for line in page.lines)
            file.note(out, page.cursor, len(page.lines))
    file.finish()
    return file.rows
