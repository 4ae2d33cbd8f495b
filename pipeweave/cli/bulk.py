"""`pipeweave bulk`: cancel, pause, resume, rerun or retry all runs that match, however many."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.known_names import require_pipeline
from pipeweave.cli.support.list_options import cursor_option, limit_option
from pipeweave.cli.support.rendering import field, moment, show_answer, show_json, show_list, text, when
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.run_filters import run_filter_options, run_filters
from pipeweave.cli.support.run_options import timeout_option
from pipeweave.cli.support.tables import Column
from pipeweave.errors import WaitTimeout

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

ACTIONS = ("cancel", "pause", "resume", "rerun", "retry")
DONE = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "rerun": "run again",
    "retry": "retried",
}
# Interval at which a bulk change is polled (s).
POLL_INTERVAL_S = 0.5
# Skipped runs that a command names.
MOST_SKIPPED = 20


@click.group(cls=Resource, noun="bulk", find=id_arguments.bulk_change)
def bulk() -> None:
    """Change many runs.

    A bulk change is worked off in the background, also when this command is gone. Without a command, it
    lists the bulk changes.
    """


@bulk.command(
    epilog=examples(
        "pipeweave bulk start cancel --pipeline nightly --status pending --dry-run",
        "pipeweave bulk start rerun --status failed --since 24h --from report --wait",
        "pipeweave bulk start retry --status failed --text 'disk full' --per-second 5",
    )
)
@click.argument("action", type=click.Choice(ACTIONS), metavar="ACTION")
@click.option("--run", "ids", multiple=True, metavar="RUN", help="This run, or these.")
@run_filter_options
@click.option("--reason", help="Of a cancel or a pause: stored with each run.")
@click.option("--from", "from_step", metavar="STEP", help="Of a rerun: begin at this step in each run.")
@click.option("--version", metavar="VERSION", help="Of a rerun: same (the default), latest, or a number.")
@click.option("--limit", type=click.IntRange(1, 100_000), metavar="N", help="Change at most so many.")
@click.option(
    "--per-second", type=click.FloatRange(0, 1_000, min_open=True), metavar="N", help="Changes in a second."
)
@click.option("--key", metavar="KEY", help="A second command with the same key finds what the first began.")
@click.option("--dry-run", is_flag=True, help="Only count the runs that match.")
@click.option("-w", "--wait", is_flag=True, help="Wait for the end; exit 0 only if no run was skipped.")
@timeout_option
@json_option
@connected
@click.pass_context
def start(
    ctx: click.Context,
    /,
    client: Client,
    action: str,
    reason: str | None,
    from_step: str | None,
    version: str | None,
    limit: int | None,
    per_second: float | None,
    key: str | None,
    dry_run: bool,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Do an action to all runs that match.

    ACTION is cancel, pause, resume, rerun, or retry, which retries their dead letters. At least one filter is
    needed. Runs that begin later are not meant.
    """
    chosen = _chosen(client, filters)
    if not chosen:
        raise click.UsageError("give --run, or a filter such as --pipeline or --status")
    change = client.bulk(
        action,
        chosen,
        reason=reason,
        from_step=from_step,
        version=int(version) if version is not None and version.isdecimal() else version,
        limit=limit,
        per_second=per_second,
        dry_run=dry_run,
        idempotency_key=key,
    )
    if dry_run:
        _show_plan(client, change, filters["pipeline"], as_json=as_json)
        return
    if wait:
        change = _wait(client, change, timeout, is_silent=as_json)
    show_answer(change, as_json, _line(change))
    ctx.exit(0 if not wait or (change["status"] == "completed" and not change["skipped"]) else 1)


def _chosen(client: Client, options: dict[str, Any]) -> Document:
    """The filters as the API names them."""
    named = [id_arguments.run(client, each) for each in options["ids"]]
    return {**({"ids": named} if named else {}), **run_filters(options)}


def _show_plan(client: Client, plan: Document, pipelines: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        show_json(plan)
        return
    if not plan["matched"]:
        for each in pipelines:
            require_pipeline(client, each)
    more = "" if plan["isComplete"] else " or more"
    counts = ", ".join(f"{number:,} {status}" for status, number in plan["byStatus"].items())
    click.echo(
        f"{plan['matched']:,}{more} runs would be {DONE[plan['action']]}{f' ({counts})' if counts else ''}"
    )
    if plan["skipped"]:
        click.echo(f"{plan['skipped']:,} of those that are named are not concerned", err=True)
    for each in plan["sample"]:
        click.echo(each)


def _wait(client: Client, change: Document, timeout: float | None, *, is_silent: bool) -> Document:
    until = None if timeout is None else time.monotonic() + timeout
    while change["status"] == "running":
        if not is_silent and sys.stderr.isatty():
            click.echo(
                f"\r{change['changed'] + change['skipped']:,} of {change['total']:,}", nl=False, err=True
            )
        if until is not None and time.monotonic() >= until:
            raise WaitTimeout(f"bulk change {change['id']} is still running after {timeout:g} s")
        time.sleep(POLL_INTERVAL_S)
        change = client.bulk_change(change["id"])
    return change


def _line(change: Document) -> str:
    of = f"{change['total']:,}{'+' if change['totalIsCapped'] else ''}"
    skipped = f", {change['skipped']:,} skipped" if change["skipped"] else ""
    done = DONE[change["action"]]
    return f"{change['id']} {change['status']}: {change['changed']:,} of {of} runs {done}{skipped}"


@bulk.command("list", epilog=examples("pipeweave bulk list --limit 5"))
@limit_option
@cursor_option
@json_option
@connected
def list_(client: Client, limit: int, cursor: str | None, as_json: bool) -> None:
    """List bulk changes, newest first."""
    page = client.bulk_changes(limit=limit, cursor=cursor)
    cells = {
        Column("bulk change"): field("id"),
        Column("action"): field("action"),
        Column("status"): field("status"),
        Column("changed"): field("changed"),
        Column("skipped", drop=2): field("skipped"),
        Column("matched", drop=3): field("total"),
        moment("began (UTC)", drop=1): lambda each: when(each["createdAt"]),
        Column("by", drop=4): field("createdBy"),
    }
    none = "No bulk change yet. `pipeweave bulk start` begins one."
    show_list("bulkChanges", page, cells, as_json=as_json, none=none, client=client)


@bulk.command(epilog=examples("pipeweave bulk show latest"))
@click.argument("bulk_change", metavar="BULK")
@json_option
@connected
def show(client: Client, bulk_change: str, as_json: bool) -> None:
    """Show how far a bulk change is, and which runs it skipped.

    BULK is its id, the beginning of one, or `latest`.
    """
    change = client.bulk_change(id_arguments.bulk_change(client, bulk_change))
    if as_json:
        show_json(change)
        return
    click.echo(_line(change))
    skipped = client.bulk_runs(change["id"], "skipped")
    for each, _ in zip(skipped, range(MOST_SKIPPED), strict=False):
        click.echo(f"{each['runId']}: {each['errorCode']}: {text(each['error'])}")
    if change["skipped"] > MOST_SKIPPED:
        click.echo(f"and {change['skipped'] - MOST_SKIPPED:,} more", err=True)


bulk.verb(
    "stop",
    """Stop a bulk change. What it has changed stays changed.

    BULK is its id, the beginning of one, or `latest`.
    """,
    _line,
    epilog=examples("pipeweave bulk stop latest"),
)
