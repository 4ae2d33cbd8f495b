"""`pipeweave watch`: print changes as they come."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import orjson

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import text
from pipeweave.errors import CursorExpired

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

# A line has at most so many characters; --json shows everything.
_WIDTH = 160


@click.command(
    epilog=examples(
        "pipeweave watch latest",
        "pipeweave watch --pipeline nightly --types run",
        "pipeweave watch --json | jq .type",
    )
)
@click.argument("run", required=False)
@click.option("--pipeline", help="Only changes of runs of this pipeline; with `latest`, its newest run.")
@click.option(
    "--types",
    metavar="TYPES",
    help="Only these, separated by commas: `run.failed`, or `run` for all of that kind.",
)
@json_option
@connected
@click.pass_context
def watch(
    ctx: click.Context,
    client: Client,
    run: str | None,
    pipeline: str | None,
    types: str | None,
    as_json: bool,
) -> None:
    """Print changes of runs as they come.

    RUN is an id, the beginning of one, or `latest`: it ends with the run, and exits 0 only if the run
    completed. Without RUN, changes of all runs are printed until Ctrl-C. Restarts of the API are bridged.
    """
    words = types.split(",") if types is not None else None
    if run is None:
        _watch_all(client, pipeline, words, as_json=as_json)
        return
    run_id = id_arguments.run(client, run, pipeline)
    status = _watch_run(client, run_id, words, as_json=as_json)
    if not as_json:
        click.echo(f"{run_id} {status}", err=True)
    ctx.exit(0 if status == "completed" else 1)


def _watch_all(client: Client, pipeline: str | None, types: list[str] | None, *, as_json: bool) -> None:
    while True:
        try:
            for change in client.watch(pipeline=pipeline, types=types):
                _print(change, as_json=as_json)
        except CursorExpired as error:
            click.echo(f"Changes may be missing here: {error.detail}.", err=True)


def _watch_run(client: Client, run_id: str, types: list[str] | None, *, as_json: bool) -> str:
    """Print the changes of a run until it is final; its status."""
    from pipeweave.client.streaming import ENDS

    def show(change: Document) -> None:
        if types is None or change["type"] in types or change["type"].partition(".")[0] in types:
            _print(change, as_json=as_json)

    with closing(client.watch(run_id, types=None if types is None else [*types, *ENDS])) as changes:
        changes.begin()
        # It may have ended before the stream began.
        run = client.run(run_id)
        if run.is_final:
            for change in changes.waiting():
                show(change)
            return run.status
        for change in changes:
            show(change)
            if change["type"] in ENDS:
                return str(change["type"]).partition(".")[2]
    return run.status


def _print(change: Document, *, as_json: bool) -> None:
    click.echo(orjson.dumps(change).decode() if as_json else _line(change))
    sys.stdout.flush()


def _line(change: Document) -> str:
    attempt = change.get("attempt")
    place = [change["runId"]] if change.get("step") is None else [change["runId"], change["step"]]
    attempt_parts = [f"attempt {attempt}"] if attempt is not None and attempt > 1 else []
    data = [f"{name}={_short(value)}" for name, value in (change.get("data") or {}).items()]
    return text(" ".join([_time(change["at"]), change["type"], *place, *attempt_parts, *data]))[:_WIDTH]


def _time(moment: str) -> str:
    """The time of day on this machine."""
    return f"{datetime.fromisoformat(moment).astimezone():%H:%M:%S}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
