"""`pipeweave export`: write runs, task runs, attempts, events or logs as lines of JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected
from pipeweave.cli.support.export_file import ExportFile, write_rows
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.run_filters import run_filter_options, run_filters

if TYPE_CHECKING:
    from pipeweave.client import Client

_KINDS = ("runs", "task-runs", "attempts", "events", "logs")


@click.command(
    epilog=examples(
        "pipeweave export events --run latest",
        "pipeweave export runs --status failed --text 'no space left'",
        "pipeweave export task-runs --since 7d -o steps.ndjson",
        "pipeweave export task-runs -o steps.ndjson --resume",
    )
)
@click.argument("kind", type=click.Choice(_KINDS), metavar="KIND")
@click.option("--run", help="Only this run: an id, the beginning of one, or `latest`.")
@run_filter_options
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
        count = write_rows(client, kind, _filters(client, options))
    elif resume:
        count = _write_file(client, ExportFile.interrupted(output, kind))
    else:
        count = _write_file(client, ExportFile.new(output, kind, _filters(client, options)))
    click.echo(f"{count:,} {kind if kind != 'logs' else 'lines of logs'} exported", err=True)


def _filters(client: Client, options: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the API."""
    filters = run_filters(options)
    if options["run"] is not None:
        filters["run"] = id_arguments.run(client, options["run"], None)
    if options["standalone"]:
        filters["standalone"] = True
    return filters


def _write_file(client: Client, file: ExportFile) -> int:
    with file.opened() as out:
        for page in client.export_pages(file.kind, after=file.cursor, **file.filters):
            out.writelines(line + b"\n" for line in page.lines)
            file.record(out, page.cursor, len(page.lines))
    file.finish()
    return file.rows
