"""Options of commands that choose, start or follow a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.list_options import options
from pipeweave.cli.support.rendering import show_json
from pipeweave.errors import MalformedJson

if TYPE_CHECKING:
    from pipeweave.client import Client, Run

with_input = options(
    click.option("-i", "--input", "inline", metavar="JSON", help="The run's input, e.g. '{\"limit\": 100}'."),
    click.option(
        "-f",
        "--file",
        type=click.File("rb"),
        help="Read the run's input from a JSON file; - for standard input.",
    ),
)


pipeline_option = click.option("--pipeline", help="With `latest`: the newest run of this pipeline.")
paused_option = click.option("--paused/--not-paused", default=None, help="Store it paused, or end a pause.")
timeout_option = click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="With --wait: give up after this many seconds.",
)


def follow_to_end(
    ctx: click.Context, client: Client, run_id: str, timeout: float | None, as_json: bool
) -> None:
    """Follow a run to its end, and exit 0 only if it completed."""
    from pipeweave.cli.support.progress import follow

    final: Run = client.wait(run_id, timeout) if as_json else follow(client, run_id, timeout)
    if as_json:
        show_json(final.document)
    ctx.exit(0 if final.status == "completed" else 1)


def given_input(inline: str | None, file: Any) -> Any:
    """The value of `--input` or `--file`; None without them.

    Raises:
        MalformedJson: it is not JSON.
    """
    if inline is not None and file is not None:
        raise click.UsageError("give --input or --file, not both")
    if inline is not None and inline.startswith("@"):  # as curl does; no JSON begins like this
        raise click.UsageError(f"--input takes the JSON itself; write --file {inline[1:] or 'FILE'}")
    text = inline if inline is not None else file.read() if file is not None else None
    if text is None:
        return None
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        source = "--input" if file is None else "--file"
        raise MalformedJson(f"{source} is not JSON: {error}", hint="quote it: -i '{\"name\": 1}'") from error


def json_value(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """The value of an option that takes JSON; None without it.

    Raises:
        BadParameter: it is not JSON.
    """
    if value is None:
        return None
    import orjson

    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise click.BadParameter(f"is not JSON: {error}", ctx, param) from None
