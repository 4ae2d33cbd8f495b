"""`pipeweave dlq`: list, show, retry, discard and purge dead letters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.known_names import require_pipeline, require_task, require_tenant
from pipeweave.cli.support.lifetime import Lifetime
from pipeweave.cli.support.list_options import cursor_option, limit_option, options
from pipeweave.cli.support.rendering import field, moment, show_answer, show_json, show_list, when
from pipeweave.cli.support.run_options import timeout_option
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

STATUSES = ("open", "retried", "discarded", "all")
# The final statuses of a task run.
FINAL = ("completed", "failed", "timeout", "cancelled", "skipped")
# Interval at which a standalone task is polled (s).
POLL_INTERVAL_S = 0.5
# Characters of a fingerprint that are shown, and all of them; the number of groups that are searched for one.
FINGERPRINT_CHARS, WHOLE_FINGERPRINT, MOST_GROUPS = 12, 64, 1_000

_filtered = options(
    click.option(
        "--run",
        "pipeline_run_id",
        metavar="RUN",
        help="Only dead letters of this run: its id, the beginning of one, or `latest`.",
    ),
    click.option("--pipeline", "pipeline_id", help="Only dead letters of this pipeline."),
    click.option("--task", "task_id", help="Only dead letters of this task."),
    click.option("--error-code", help="Only dead letters with this error code."),
    click.option(
        "--fingerprint",
        help="Only dead letters with similar errors, as `dlq groups` shows it.",
    ),
    click.option(
        "--since",
        type=Lifetime(),
        help="Only dead letters that failed at most this long ago, or since a time.",
    ),
    click.option(
        "--until",
        type=Lifetime(),
        help="Only dead letters that failed longer ago than this, or before a time.",
    ),
)


def _with_values(client: Client, filters: dict[str, Any]) -> dict[str, Any]:
    """Drop the filters that were not given, turn durations into times, and find the run that is meant."""
    now = datetime.now(UTC)
    if (run := filters["pipeline_run_id"]) is not None:
        run = id_arguments.run(client, run, filters["pipeline_id"])
        filters = {**filters, "pipeline_run_id": run}
    if filters["fingerprint"] is not None:
        filters = {**filters, "fingerprint": _whole_fingerprint(client, filters["fingerprint"])}
    return {
        name: now - value if isinstance(value, timedelta) else value
        for name, value in filters.items()
        if value is not None
    }


def _whole_fingerprint(client: Client, fingerprint: str) -> str:
    """A fingerprint, of which the beginning may be given that `dlq groups` shows.

    Raises:
        UsageError: no group of dead letters has it, or several have.
    """
    if len(fingerprint) >= WHOLE_FINGERPRINT:
        return fingerprint
    groups = client.dlq.groups(status="all", limit=MOST_GROUPS)
    matches = [each["fingerprint"] for each in groups if each["fingerprint"].startswith(fingerprint.lower())]
    if len(matches) != 1:
        many = f"{len(matches)} groups have" if matches else "no group has"
        raise click.UsageError(
            f"{many} a fingerprint that begins with {fingerprint!r}; `pipeweave dlq groups` shows them"
        )
    return str(matches[0])


def _require_known(client: Client, filters: Mapping[str, Any]) -> None:
    """Check the names of the tenant and of filters that no dead letter matches."""
    require_tenant(client)
    require_pipeline(client, filters.get("pipeline_id"))
    require_task(client, filters.get("task_id"))


@click.group()
def dlq() -> None:
    """List, show, retry and discard dead letters.

    A dead letter is a task run that failed and is not retried any more.
    """


@dlq.command(
    "list",
    epilog=examples(
        "pipeweave dlq list --pipeline nightly --since 24h",
        "pipeweave dlq list --error-code TIMEOUT --status all",
    ),
)
@_filtered
@click.option("--status", type=click.Choice(STATUSES), default="open", show_default=True)
@limit_option
@cursor_option
@json_option
@connected
def list_(client: Client, status: str, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:
    """List dead letters, newest first."""
    from pipeweave.cli.support.run_errors import place

    page = client.dlq.page(status=status, limit=limit, cursor=cursor, **_with_values(client, filters))
    cells = {
        Column("dead letter"): field("id"),
        Column("pipeline", drop=1): field("pipelineId"),
        Column("step"): place,
        Column("error"): field("errorCode"),
        Column("attempts", drop=4): field("attempts"),
        moment("failed (UTC)", drop=2): lambda each: when(each["failedAt"]),
        Column("status", drop=3): field("status"),
    }
    if not page.items and not as_json:
        _require_known(client, filters)
    none = "No open dead letters." if status == "open" else "No dead letters found."
    show_list("items", page, cells, as_json=as_json, none=none)


@dlq.command()
@_filtered
@click.option("--status", type=click.Choice(STATUSES), default="open", show_default=True)
@limit_option
@json_option
@connected
def groups(client: Client, status: str, limit: int, as_json: bool, **filters: Any) -> None:
    """Count similar dead letters, the largest group first.

    Similar: same task, error code, type, and message apart from numbers.
    """
    rows = client.dlq.groups(status=status, limit=limit, **_with_values(client, filters))
    if not rows and not as_json:
        _require_known(client, filters)
    cells = {
        Column("number"): field("count"),
        Column("task"): field("taskId"),
        Column("error"): field("errorCode"),
        Column("message", wraps=True): field("message"),
        moment("last (UTC)", drop=1): lambda each: when(each["lastFailedAt"]),
        # These characters are enough to name the group.
        Column("fingerprint"): lambda each: each["fingerprint"][:FINGERPRINT_CHARS],
    }
    show_list("groups", rows, cells, as_json=as_json, none="No dead letters found.")


@dlq.command()
@click.argument("dead_letter")
@click.option("--full", is_flag=True, help="Show every frame of the tracebacks.")
@json_option
@connected
def show(client: Client, dead_letter: str, full: bool, as_json: bool) -> None:
    """Show a dead letter: error, input and attempts.

    DEAD_LETTER is an id, the beginning of one, or `latest`.
    """
    from pipeweave.cli.support.dead_letter_view import show_dead_letter

    letter = client.dlq.get(id_arguments.dead_letter(client, dead_letter), load=True)
    show_answer(letter, as_json, partial(show_dead_letter, is_full=full))


@dlq.command()
@click.argument("dead_letter")
@click.option("-w", "--wait", is_flag=True, help="Follow the run; exit 0 only if it completes.")
@json_option
@connected
@click.pass_context
def retry(ctx: click.Context, client: Client, dead_letter: str, wait: bool, as_json: bool) -> None:
    """Retry a dead letter with the current code.

    Its run continues from the failed step. DEAD_LETTER is an id, the beginning of one, or `latest`.
    """
    answer = client.dlq.retry(id_arguments.dead_letter(client, dead_letter))
    if not as_json:
        click.echo(f"{answer['newRunId']} {answer['status']} (code v{answer['codeVersion']})")
    ended = _followed(client, answer, as_json=as_json) if wait else None
    if as_json:
        show_json(answer if ended is None else {**answer, "endedAs": ended})
    ctx.exit(0 if ended in (None, "completed") else 1)


def _followed(client: Client, answer: Document, *, as_json: bool) -> str:
    """Wait for the continued run, or for a standalone task's task run, and return its final status."""
    if answer["newRunId"] == answer["taskRunId"]:
        while (status := str(client.task_run(answer["taskRunId"])["status"])) not in FINAL:
            time.sleep(POLL_INTERVAL_S)
        return status
    from pipeweave.cli.support.progress import follow

    run = client.wait(answer["newRunId"]) if as_json else follow(client, answer["newRunId"])
    return run.status


@dlq.command(
    "retry-all",
    epilog=examples(
        "pipeweave dlq retry-all --task charge --since 2h --wait",
        "pipeweave dlq retry-all --error-code SMTP_DOWN --canary 3 --per-second 10",
    ),
)
@_filtered
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Retry at most so many.")
@click.option(
    "--canary",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="Retry so many first, and the others only when these have ended well enough.",
)
@click.option(
    "--per-second", type=click.FloatRange(0, 1_000, min_open=True), metavar="N", help="Retries in a second."
)
@click.option(
    "--stop-percent",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Stop when more than this share of those that ended failed again in the same way. Defaults to 50"
    " after a canary.",
)
@click.option(
    "-w", "--wait", is_flag=True, help="Wait until all are retried; exit 0 only if none was skipped."
)
@timeout_option
@json_option
@connected
@click.pass_context
def retry_all(
    ctx: click.Context,
    /,
    client: Client,
    limit: int | None,
    canary: int | None,
    per_second: float | None,
    stop_percent: float | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Retry all open dead letters that match the filters.

    Without filters, it retries all of them.
    """
    redrive = client.dlq.retry_all(
        limit=limit,
        canary=canary,
        per_second=per_second,
        stop_on_same_fingerprint=stop_percent,
        **_with_values(client, filters),
    )
    if wait:
        shown = None if as_json else _show_redrive
        redrive = client.dlq.wait(redrive["id"], timeout, shown)
    elif not as_json:
        _show_redrive(redrive)
    if as_json:
        show_json(redrive)
    ctx.exit(0 if not wait or (redrive["status"] == "completed" and not redrive["skipped"]) else 1)


@dlq.command()
@click.argument("redrive")
@click.option(
    "--cancel",
    is_flag=True,
    help="Stop it. Runs that were retried continue; the other dead letters stay open.",
)
@json_option
@connected
def redrive(client: Client, redrive: str, cancel: bool, as_json: bool) -> None:
    """Show or cancel what `retry-all` started.

    `retry-all` works in the background, as a redrive. REDRIVE is its id, the beginning of one, or `latest`.
    """
    redrive_id = id_arguments.redrive(client, redrive)
    document = client.dlq.cancel_redrive(redrive_id) if cancel else client.dlq.redrive(redrive_id)
    show_answer(document, as_json, _show_redrive)


def _show_redrive(redrive: Document) -> None:
    done, total = redrive["retried"] + redrive["skipped"], redrive["total"]
    skipped = f", {redrive['skipped']:,} skipped" if redrive["skipped"] else ""
    because = f" ({redrive['stoppedBecause']})" if redrive.get("stoppedBecause") else ""
    click.echo(f"{redrive['id']} {redrive['status']}: {done:,} of {total:,}{skipped}{because}")


@dlq.command(epilog=examples("pipeweave dlq discard --error-code NO_ADDRESS --reason 'old customers'"))
@click.argument("dead_letters", nargs=-1)
@_filtered
@click.option("--reason", help="Stored with the dead letters.")
@json_option
@connected
def discard(
    client: Client, dead_letters: tuple[str, ...], reason: str | None, as_json: bool, **filters: Any
) -> None:
    """Discard dead letters: `retry-all` then skips them.

    Give their ids (or the beginnings of them), or filters.
    """
    choice = _with_values(client, filters)
    if bool(dead_letters) == bool(choice):
        raise click.UsageError("give the ids of dead letters, or filters such as --task")
    for each in [id_arguments.dead_letter(client, choice) for choice in dead_letters]:
        client.dlq.discard(each, reason)
    count = len(dead_letters) if dead_letters else client.dlq.discard_all(reason, **choice)
    show_answer({"discarded": count}, as_json, f"{count:,} discarded")


@dlq.command(epilog=examples("pipeweave dlq purge --older-than 30d"))
@click.option(
    "--older-than",
    metavar="30d|12h",
    required=True,
    help="Delete dead letters that failed longer ago than this.",
)
@json_option
@connected
def purge(client: Client, older_than: str, as_json: bool) -> None:
    """Delete old dead letters. This cannot be undone.

    Open ones are deleted, too.
    """
    count = client.dlq.purge(older_than)
    show_answer({"purged": count}, as_json, f"{count:,} deleted")
