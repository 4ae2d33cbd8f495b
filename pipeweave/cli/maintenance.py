"""`pipeweave maintenance | tick`: put a deployment into maintenance, and run a tick where no beat runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import seconds, show_answer, show_fields, show_json, show_table, when
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.run_options import timeout_option
from pipeweave.cli.support.tables import Column
from pipeweave.errors import WaitTimeout

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

# Interval at which --wait polls (s).
POLL_INTERVAL_S = 0.5
# How many of the open runs --wait names.
NAMED_RUNS = 3

_reason = click.option("--reason", help="Shown in the status and in the errors of refused requests.")
_wait = click.option(
    "-w", "--wait", is_flag=True, help="Wait until maintenance mode begins, and show the runs that block it."
)


@click.group(cls=Resource, default="status")
def maintenance() -> None:
    """Drain and enter maintenance mode, or leave it.

    Without a command, it shows the mode.
    """


@maintenance.command()
@json_option
@connected
def status(client: Client, as_json: bool) -> None:
    """Show the mode and the oldest unfinished runs."""
    show_answer(client.maintenance(), as_json, _show)


@maintenance.command(epilog=examples("pipeweave maintenance request --reason 'new disks' --wait"))
@_reason
@_wait
@timeout_option
@json_option
@connected
def request(client: Client, reason: str | None, wait: bool, timeout: float | None, as_json: bool) -> None:
    """Drain: accept no new work, and enter when all runs have ended."""
    _do(client, client.request_maintenance, reason, wait, timeout, as_json)


@maintenance.command()
@_reason
@_wait
@timeout_option
@json_option
@connected
def enter(client: Client, reason: str | None, wait: bool, timeout: float | None, as_json: bool) -> None:
    """Enter maintenance mode, if no run is unfinished.

    Exits 1 if a run is unfinished.
    """
    state = _do(client, client.enter_maintenance, reason, wait, timeout, as_json)
    click.get_current_context().exit(0 if state["mode"] == "maintenance" else 1)


@maintenance.command(
    epilog=examples("pipeweave maintenance limit --max-running 30", "pipeweave maintenance limit --none")
)
@click.option(
    "--max-running", metavar="N", type=click.IntRange(min=1), help="Let at most this many be at work."
)
@click.option("--none", "is_none", is_flag=True, help="Remove the limit.")
@json_option
@connected
def limit(client: Client, max_running: int | None, is_none: bool, as_json: bool) -> None:
    """Show or set how many task runs of all tenants may be at work.

    Further ones wait as ready, whatever workers there are.
    """
    if is_none and max_running is not None:
        raise click.UsageError("give --max-running or --none, not both")
    is_set = is_none or max_running is not None
    shown = client.set_deployment_limit(max_running) if is_set else client.deployment_limit()
    show_answer(shown, as_json, _show_limit)


def _show_limit(shown: Document) -> None:
    show_fields(
        (
            ("max running", shown["maxRunningTaskRuns"] or "unlimited"),
            ("at work", shown["runningTaskRuns"]),
        )
    )


@maintenance.command("exit")
@click.option("--reason", help="Written to the log.")
@json_option
@connected
def leave(client: Client, reason: str | None, as_json: bool) -> None:
    """Leave maintenance mode and accept new work again."""
    show_answer(client.exit_maintenance(reason), as_json, _show)


@click.command()
@json_option
@connected
def tick(client: Client, as_json: bool) -> None:
    """Run one pass of the scheduler loop.

    Beat does this every second; call it yourself with MODE=serverless, where no beat runs.
    """
    done = client.tick()
    if as_json:
        show_json(done)
        return
    click.echo(f"{done['processed']} processed. {done['message']}")
    for kind, number in done["did"].items():
        if number:
            click.echo(f"  {kind}: {number}")


def _do(
    client: Client,
    verb: Callable[[str | None], Document],
    reason: str | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> Document:
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait")
    state = verb(reason)
    if wait:
        state = _quiet(client, state, timeout, (lambda _: None) if as_json else click.echo)
    show_answer(state, as_json, _show)
    return state


def _quiet(client: Client, state: Document, timeout: float | None, tell: Callable[[str], object]) -> Document:
    """Wait until maintenance begins; each poll also asks to enter, so no other process has to."""
    began, last_line = time.monotonic(), ""
    while state["mode"] != "maintenance":
        if (line := _blocked(state)) != last_line:
            last_line = line
            tell(line)
        left = None if timeout is None else timeout - (time.monotonic() - began)
        if left is not None and left <= 0:
            raise WaitTimeout(
                f"maintenance has not begun after {timeout:g} s: {line}",
                hint="new work is refused meanwhile; `pipeweave maintenance exit` cancels the request",
            )
        time.sleep(POLL_INTERVAL_S if left is None else min(POLL_INTERVAL_S, left))
        state = client.enter_maintenance()
    return state


def _blocked(state: Document) -> str:
    named = [f"{each['id']} ({_what(each)}, {each['status']})" for each in state["blocking"][:NAMED_RUNS]]
    more = state["blockingTotal"] - len(named)
    rest = [f"{more:,} more"] if more > 0 else []
    return (
        f"{state['blockingTotal']:,} unfinished: {', '.join([*named, *rest])}"
        if named
        else "no run is unfinished"
    )


def _what(run: Document) -> str:
    return str(run["pipelineId"] or f"task {run['taskId']}")


def _show(state: Document) -> None:
    fields: Sequence[tuple[str, Any]] = (
        ("mode", state["mode"]),
        ("since (UTC)", when(state["modeChangedAt"])),
        ("reason", state["reason"]),
        ("pending", state["pendingTasks"]),
        ("running", state["runningTasks"]),
        ("unfinished runs", state["blockingTotal"]),
        ("empty in", _left(state)),
    )
    show_fields(fields)
    click.echo(state["message"])
    if state["blocking"]:
        click.echo()
        show_table(_COLUMNS, [_row(each) for each in state["blocking"]])


def _left(state: Document) -> str | None:
    """About how long the unfinished runs take; None without any."""
    if not state["blockingTotal"]:
        return None
    left = state.get("emptyInMs")
    return "unknown" if left is None else f"about {seconds(left / 1_000)}"


_COUNTED = ("running", "queued", "ready", "waiting", "pending")
_COLUMNS: tuple[Column | str, ...] = (
    "run",
    Column("tenant", drop=6),
    "pipeline",
    "status",
    "age",
    *(Column(name, drop=number) for number, name in enumerate(_COUNTED, start=1)),
)


def _row(run: Document) -> list[Any]:
    counts = [run["taskRuns"][each] for each in _COUNTED]
    return [run["id"], run["tenant"], _what(run), run["status"], seconds(run["age"]), *counts]
