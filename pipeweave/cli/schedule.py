"""`pipeweave schedule`: store, list, show, pause and start schedules, and start the runs of the past."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.schedule_import import import_celery
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.fires import show_fires
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import Cells, field, moment, show_answer, show_fields, show_list, when
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.run_options import json_value, paused_option
from pipeweave.cli.support.schedules import times_of
from pipeweave.cli.support.tables import Column
from pipeweave.durations import DURATION_EXPECTED, milliseconds

if TYPE_CHECKING:
    from pipeweave.client import Client, Document


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A duration as users write it, in ms."""
    if value is None:
        return None
    if (duration_ms := milliseconds(int(value) if value.isdecimal() else value)) is None:
        raise click.BadParameter(f"{value!r} is not {DURATION_EXPECTED}", ctx, param)
    return duration_ms


@click.group(cls=Resource, noun="schedule")
def schedule() -> None:
    """List and change schedules.

    A schedule starts runs of a pipeline by itself. Without a command, it lists them.
    """


schedule.add_command(import_celery)


@schedule.command("list")
@click.option("--pipeline", help="Only this pipeline's schedules.")
@json_option
@connected
def list_schedules(client: Client, pipeline: str | None, as_json: bool) -> None:
    """List the schedules and their next times."""
    cells = {
        Column("schedule"): field("id"),
        Column("pipeline", drop=2): field("pipelineId"),
        Column("times"): times_of,
        Column("zone", drop=3): field("timeZone"),
        moment("next (UTC)"): lambda each: "paused" if each["paused"] else when(each["nextFireAt"]),
        moment("last (UTC)", drop=1): lambda each: when(each["lastFireAt"]),
        Column("last error", wraps=True, drop=4): lambda each: (each["lastError"] or {}).get("message"),
    }
    none = "No schedules yet. `pipeweave schedule set` stores one."
    show_list("schedules", client.schedules(pipeline), cells, as_json=as_json, none=none, client=client)


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@json_option
@connected
def show(client: Client, schedule_id: str, as_json: bool) -> None:
    """Show a schedule, its next times and its last fires."""
    show_answer(client.schedule(schedule_id), as_json, _show)


@schedule.command(
    "set",
    epilog=examples(
        "pipeweave schedule set nightly report --cron '30 2 * * MON-FRI'",
        "pipeweave schedule set poll fetch --every 15m --overlap skip",
    ),
)
@click.argument("schedule_id", metavar="SCHEDULE")
@click.argument("pipeline")
@click.option("--cron", metavar="LINE", help="Five fields, or six with seconds in the first; or @daily.")
@click.option("--every", callback=_duration, metavar="DURATION", help="An interval such as 15m.")
@click.option("--at", metavar="TIME", help="The only time, such as 2030-01-01T00:00:00Z.")
@click.option("--time-zone", metavar="ZONE", help="Of the cron line; UTC without it.")
@click.option("-i", "--input", "given", callback=json_value, metavar="JSON", help="The input of its runs.")
@click.option(
    "--missed", type=click.Choice(["skip", "one", "all"]), help="What becomes of times that were missed."
)
@click.option(
    "--overlap",
    type=click.Choice(["allow", "skip", "queue", "cancel-old"]),
    help="What becomes of a time while a run of the schedule is open.",
)
@click.option("--jitter", callback=_duration, metavar="DURATION", help="Start up to so much later.")
@click.option("--start-at", metavar="TIME", help="Nothing is due before this time.")
@click.option("--end-at", metavar="TIME", help="Nothing is due after this time.")
@paused_option
@json_option
@connected
def set_schedule(client: Client, schedule_id: str, pipeline: str, as_json: bool, **options: Any) -> None:
    """Store a schedule of a pipeline, or replace it.

    What is not given has its default, but a paused schedule stays paused.
    """
    if sum(options[each] is not None for each in ("cron", "every", "at")) != 1:
        raise click.UsageError("give one of --cron, --every and --at")
    named = {
        "pipelineId": pipeline,
        "cron": options["cron"],
        "everyMs": options["every"],
        "at": options["at"],
        "timeZone": options["time_zone"],
        "input": options["given"],
        "missedPolicy": options["missed"],
        "overlapPolicy": options["overlap"],
        "jitterMs": options["jitter"],
        "startAt": options["start_at"],
        "endAt": options["end_at"],
        "paused": options["paused"],
    }
    body = {name: value for name, value in named.items() if value is not None}
    show_answer(client.put_schedule(schedule_id, body), as_json, _show)


schedule.verb("pause", "Pause a schedule; its runs go on.", "Schedule {} is paused")
schedule.verb(
    "resume",
    "Resume a schedule; times that passed are not made up for.",
    lambda answer: f"Schedule {answer['id']} is resumed; next (UTC): {when(answer['nextFireAt'])}",
)
schedule.verb("fire", "Start a run of a schedule now, even while it is paused.", "{pipelineRunId}")
schedule.verb("delete", "Delete a schedule; its runs go on.", "Deleted schedule {}")


@schedule.command()
@click.argument("schedule_id", metavar="SCHEDULE")
@click.argument("begin", metavar="FROM")
@click.argument("end", metavar="TO")
@click.option("--dry-run", is_flag=True, help="Only print the times.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="Start at most this many runs.",
)
@click.option(
    "--per-second", type=click.IntRange(1, 1_000), metavar="N", help="Start so many runs each second."
)
@json_option
@connected
def backfill(
    client: Client,
    schedule_id: str,
    begin: str,
    end: str,
    dry_run: bool,
    limit: int,
    per_second: int | None,
    as_json: bool,
) -> None:
    """Start the runs of times that have passed.

    It starts a run for each due time from FROM until just before TO that nothing was decided about. The same
    backfill twice starts nothing twice.
    """
    done: dict[str, Any] = {"times": [], "created": 0, "known": 0, "runIds": [], "nextFrom": begin}
    while done["nextFrom"] is not None and (left := limit - len(done["times"])) > 0:
        if per_second is not None and done["times"] and not dry_run:
            time.sleep(1)
        some = min(left, 1_000 if per_second is None or dry_run else per_second)
        batch = client.backfill_schedule(schedule_id, done["nextFrom"], end, dry_run=dry_run, limit=some)
        done = {name: batch[name] if name == "nextFrom" else done[name] + batch[name] for name in done}
    show_answer(done, as_json, partial(_show_backfill, is_dry_run=dry_run))


def _show_backfill(done: Mapping[str, Any], *, is_dry_run: bool) -> None:
    if is_dry_run:
        for each in done["times"]:
            click.echo(when(each))
        new = len(done["times"]) - done["known"]
        click.echo(f"{len(done['times']):,} due times, of which {new:,} would start a run")
    else:
        click.echo(f"Started {done['created']:,} runs; decided about before: {done['known']:,}")
    if done["nextFrom"] is not None:
        click.echo(f"The range goes on: continue from {done['nextFrom']}")


def _show(document: Document) -> None:
    error = document["lastError"]
    show_fields(
        {
            "schedule": document["id"],
            "pipeline": document["pipelineId"],
            "times": times_of(document),
            "time zone": document["timeZone"],
            "input": document["input"],
            "missed": document["missedPolicy"],
            "overlap": document["overlapPolicy"],
            "jitter": f"{document['jitterMs'] / 1_000:g} s" if document["jitterMs"] else None,
            "not before (UTC)": document["startAt"] and when(document["startAt"]),
            "not after (UTC)": document["endAt"] and when(document["endAt"]),
            "paused": "yes" if document["paused"] else None,
            "source": document.get("source"),
            "not declared since (UTC)": document.get("withdrawnAt") and when(document["withdrawnAt"]),
            "next times (UTC)": ", ".join(when(each) for each in document["nextFires"]) or None,
            "last error": error and f"{error['code']}: {error['message']}",
        }.items()
    )
    if document["lastFires"]:
        click.echo()
        kind: Cells = {Column("kind", drop=1): field("kind")}
        show_fires(document["lastFires"], "scheduledAt", after_outcome=kind)
