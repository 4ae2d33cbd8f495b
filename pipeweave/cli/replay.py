"""`pipeweave replay`: step through the events of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json, text
from pipeweave.cli.support.run_options import pipeline_option

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

_KEYS = "n or Enter: the next event, a: all the rest, q: quit"
# Of the data of an event, so many characters are shown.
_MOST_DATA = 200


@click.command(
    epilog=examples("pipeweave replay latest", "pipeweave replay 01m80arwk4e7 --all | grep failed")
)
@click.argument("run")
@pipeline_option
@click.option("--all", "shows_all", is_flag=True, help="Print all events at once, as in a pipe.")
@json_option
@connected
def replay(client: Client, run: str, pipeline: str | None, shows_all: bool, as_json: bool) -> None:
    """Step through the events of a run.

    RUN is an id, the beginning of one, or `latest`. On a terminal, n or Enter shows the next event, a all the
    rest, q quits. In a pipe, and with --all, all events are printed.
    """
    run_id = id_arguments.run(client, run, pipeline)
    events = client.events(run_id)
    if as_json:
        show_json({"events": list(events)})
        return
    steps = {each["taskRunId"]: each["id"] for each in client.run(run_id).document.get("steps") or ()}
    _show(events, steps, is_stepping=not shows_all and _is_terminal())


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _show(events: Iterable[Document], steps: dict[str, str], *, is_stepping: bool) -> None:
    if is_stepping:
        click.echo(_KEYS, err=True)
    for number, event in enumerate(events, start=1):
        click.echo(_line(number, event, steps))
        if is_stepping:
            key = _key()
            if key == "q":
                return
            is_stepping = key != "a"
    click.echo("That was the last event.", err=True)


def _key() -> str:
    """The next key that means something."""
    while True:
        key = click.getchar().lower()
        if key in ("\r", "\n", " "):
            return "n"
        if key in ("n", "a", "q"):
            return key


def _line(number: int, event: Document, steps: dict[str, str]) -> str:
    task_run = event.get("taskRunId")
    place = "" if task_run is None else f" {steps.get(task_run, task_run)}"
    attempt = event.get("attempt")
    attempt_text = f" attempt {attempt}" if attempt is not None and attempt > 1 else ""
    data = " ".join(f"{name}={_short(value)}" for name, value in (event.get("data") or {}).items())
    return text(f"{number} {event['at']} {event['type']}{place}{attempt_text} {data}".rstrip())


def _short(value: Any) -> str:
    import orjson

    shown = orjson.dumps(value).decode()
    return shown if len(shown) <= _MOST_DATA else f"{shown[:_MOST_DATA]}…"
