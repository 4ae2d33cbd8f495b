"""`pipeweave compare`: show what differs between two runs of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import NOTHING, seconds, show_fields, show_json, show_table, text

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

# Differences of the inputs that are printed.
DIFFERENCES_PRINTED = 10


@click.command(epilog=examples("pipeweave compare 01m80arwk4e7 latest"))
@click.argument("run")
@click.argument("other")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(1, 5_000),
    default=20,
    show_default=True,
    help="Show this many steps: those that make most of the difference.",
)
@json_option
@connected
def compare(client: Client, run: str, other: str, limit: int, as_json: bool) -> None:
    """Compare two runs of a pipeline.

    RUN and OTHER are ids, beginnings of ids, or `latest`. It shows where their inputs and versions differ,
    and for each step how it ended, how long it took in RUN (left) and in OTHER (right), and whether it gave
    the same output.
    """
    left, right = id_arguments.run(client, run), id_arguments.run(client, other)
    if left == right:
        raise click.UsageError(f"both are run {left}; `pipeweave runs --pipeline PIPELINE` lists others")
    comparison = client.compare(left, right, limit)
    if as_json:
        show_json(comparison)
        return
    show_fields(_fields(comparison))
    for line in _input_lines(comparison["input"]):
        click.echo(line)
    columns = ("step", "status", "attempt", "left", "right", "difference", "output")
    show_table(columns, [_row(each) for each in comparison["steps"]], none="no steps")
    if not comparison["isComplete"]:
        click.echo(f"The {limit:,} steps that differ most are shown; --limit shows more.", err=True)


def _fields(comparison: Document) -> Iterator[tuple[str, Any]]:
    for side in ("left", "right"):
        each = comparison[side]
        error = f" {each['errorCode']}" if each["errorCode"] else ""
        took = _took(each["durationMs"])
        yield side, f"{each['id']} version {each['pipelineVersion']} {each['status']}{error} {took}"
    yield "difference", _delta(comparison["deltaMs"])
    yield "input", "the same" if comparison["input"]["isSame"] else "differs"
    yield "steps changed", ", ".join(comparison["version"]["changed"]) or None
    yield "steps added", ", ".join(comparison["version"]["added"]) or None
    yield "steps removed", ", ".join(comparison["version"]["removed"]) or None


def _input_lines(comparison: Document) -> Iterator[str]:
    listed = comparison["differences"] or []
    for each in listed[:DIFFERENCES_PRINTED]:
        match each["change"]:
            case "added":
                said = f"added {text(each['right'])}"
            case "removed":
                said = f"removed {text(each['left'])}"
            case _:
                said = f"{text(each['left'])} -> {text(each['right'])}"
        yield f"  {text(each['path'] or 'the whole input')}: {said}"
    if len(listed) > DIFFERENCES_PRINTED or not (
        comparison["isComplete"] or comparison["differences"] is None
    ):
        yield "  and more; --json lists them"


def _row(step: Document) -> tuple[Any, ...]:
    left, right = step["left"], step["right"]
    if left is None or right is None:
        only = left or right
        where = "only left" if right is None else "only right"
        return step["id"], only["status"], only["attempt"], *_took_of(left, right), where, None
    return (
        step["id"],
        _pair(left["status"], right["status"]),
        _pair(left["attempt"], right["attempt"]),
        *_took_of(left, right),
        _delta(step["deltaMs"]),
        {True: "the same", False: "differs", None: None}[step["hasSameOutput"]],
    )


def _took_of(left: Document | None, right: Document | None) -> tuple[str, str]:
    first, second = (None if each is None else each["durationMs"] for each in (left, right))
    return _took(first), _took(second)


def _pair(left: Any, right: Any) -> str:
    return str(left) if left == right else f"{left} -> {right}"


def _took(duration_ms: float | None) -> str:
    return NOTHING if duration_ms is None else seconds(duration_ms / 1000)


def _delta(delta_ms: float | None) -> str | None:
    if delta_ms is None:
        return None
    return f"{'-' if delta_ms < 0 else '+'}{seconds(abs(delta_ms) / 1000)}"
