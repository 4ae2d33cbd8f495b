"""`pipeweave debounce`: start a run when requests are quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_answer, show_fields, when
from pipeweave.cli.support.run_options import given_input, with_input
from pipeweave.durations import DURATION_EXPECTED, milliseconds

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

LONGEST_MS = 12 * 3_600_000


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if not (ms := milliseconds(value, longest_ms=LONGEST_MS)):
        raise click.BadParameter(f"{value!r}: use {DURATION_EXPECTED}, up to 12h", ctx, param)
    return ms


@click.command(epilog=examples("pipeweave debounce reindex --key shop-17 --wait 30s --longest 5m"))
@click.argument("pipeline")
@with_input
@click.option("--key", required=True, help="Requests with the same key are one run.")
@click.option(
    "--wait",
    metavar="TIME",
    required=True,
    callback=_time,
    help="Start after so long without another request.",
)
@click.option(
    "--longest", metavar="TIME", callback=_time, help="Start so long after the first one. Default: 1h."
)
@json_option
@connected
def debounce(
    client: Client,
    pipeline: str,
    inline: str | None,
    file: Any,
    key: str,
    wait: int,
    longest: int | None,
    as_json: bool,
) -> None:
    """Start a run when no other request of its key comes.

    The run has the input of the last request. It starts at the latest when --longest is over.
    """
    run_input = given_input(inline, file)
    put_off = client.debounce(pipeline, run_input, key=key, wait_ms=wait, longest_ms=longest)
    show_answer(put_off, as_json, _show)


def _show(put_off: Document) -> None:
    show_fields(
        (
            ("run", put_off["id"]),
            ("key", put_off["key"]),
            ("starts (UTC)", when(put_off["dueAt"])),
            ("at the latest (UTC)", when(put_off["latestAt"])),
            ("requests", put_off["requests"]),
        )
    )
