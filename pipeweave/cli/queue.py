"""`pipeweave queue | pause | resume | limits | why`: show and control which task runs may start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.known_names import require_tenant
from pipeweave.cli.support.rendering import (
    field,
    moment,
    show_answer,
    show_fields,
    show_json,
    show_list,
    text,
    when,
)
from pipeweave.cli.support.run_changes import RunChoice, change_all, filter_options, is_run
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document


@click.command()
@json_option
@connected
def queue(client: Client, as_json: bool) -> None:
    """Count what waits and runs; show queues, pauses and limits."""
    overview = {**client.queue_status(), **client.limits(), "queues": client.queues()}
    if as_json:
        show_json(overview)
        return
    if not overview["queues"]:
        require_tenant(client)
    since = overview["pausedAt"] and f"{when(overview['pausedAt'])} {overview['pauseReason'] or ''}"
    show_fields(
        (
            ("pending", overview["pending"]),
            ("running", overview["running"]),
            ("waiting", overview["waiting"]),
            ("oldest (UTC)", overview["oldestPending"] and when(overview["oldestPending"])),
            ("completed, last 24 h", overview["completed"]),
            ("failed, last 24 h", overview["failed"]),
            ("dead letters", overview["dlq"]),
            ("paused since (UTC)", since),
            ("paused tasks", overview["pausedTasks"] or None),
            *_limits(overview),
        )
    )
    if overview["queues"]:
        click.echo()
        _show_queues(overview["queues"])


def _show_queues(queues: list[Document]) -> None:
    cells: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("queue"): _name,
        Column("waits"): lambda each: f"{each['queued']:,}{'+' if each['isCapped'] else ''}",
        Column("running", drop=2): field("running"),
        Column("workers"): field("workers"),
        Column("places", drop=3): field("places"),
        Column("out/min", drop=4): field("outPerMinute"),
        moment("oldest (UTC)", drop=1): lambda each: each["oldest"] and when(each["oldest"]),
    }
    show_list("queues", queues, cells, as_json=False)


def _name(queue: Mapping[str, Any]) -> str:
    """A queue as users write it, with its service before it."""
    if queue["kind"] == "parking":
        return f"waits for {queue['name']}"
    own = " (one code)" if queue["kind"] == "own" else ""
    return f"{queue['serviceId']}/{queue['name']}{own}" if queue["serviceId"] else str(queue["name"])


@click.command(
    epilog=examples(
        "pipeweave pause charge --reason 'the bank is down'",
        "pipeweave pause prun_01m80arwk4e7",
        "pipeweave pause --pipeline nightly --dry-run",
        "pipeweave pause",
    )
)
@click.argument("target", required=False)
@click.option("--reason", help="Shown wherever a task run waits for the pause to end.")
@filter_options
@json_option
@connected
def pause(
    client: Client,
    target: str | None,
    reason: str | None,
    pipeline: str | None,
    status: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Pause a task, a run, all runs that match, or the whole tenant.

    TARGET is a task, or a run: its id or the beginning of one, with `prun_` before it, or `latest`. Without
    it and without a filter the tenant is paused. Nothing of what is paused starts until `pipeweave resume`;
    running attempts continue.
    """
    chosen = RunChoice(pipeline, status, dry_run)
    chosen.check(target, "TARGET")
    if chosen:
        change_all(client, "pause", chosen, reason, as_json=as_json)
    elif target is not None and is_run(target):
        run_id = id_arguments.run(client, target)
        run = dict(client.pause_run(run_id, reason).document)
        show_answer(run, as_json, f"{run_id} is paused since {when(run['pausedAt'])} UTC")
    else:
        answer = client.pause(target, reason)
        show_answer(answer, as_json, f"{_what(target)} is paused since {when(answer['pausedAt'])} UTC")


@click.command(epilog=examples("pipeweave resume charge", "pipeweave resume --pipeline nightly"))
@click.argument("target", required=False)
@filter_options
@json_option
@connected
def resume(
    client: Client,
    target: str | None,
    pipeline: str | None,
    status: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Resume a task, a run, all runs that match, or the whole tenant.

    TARGET is as for `pipeweave pause`. What waited may start.
    """
    chosen = RunChoice(pipeline, status, dry_run)
    chosen.check(target, "TARGET")
    if chosen:
        change_all(client, "resume", chosen, None, as_json=as_json)
    elif target is not None and is_run(target):
        run_id = id_arguments.run(client, target)
        run = dict(client.resume_run(run_id).document)
        show_answer(run, as_json, f"{run_id} is resumed ({run['status']})")
    else:
        show_answer(client.resume(target), as_json, f"{_what(target)} is resumed")


@click.command(epilog=examples("pipeweave limits --max-active-runs 50"))
@click.option(
    "--max-active-runs", metavar="N", type=click.IntRange(min=1), help="Allow at most this many active runs."
)
@click.option("--no-max-active-runs", is_flag=True, help="Remove the limit of active runs.")
@json_option
@connected
def limits(client: Client, max_active_runs: int | None, no_max_active_runs: bool, as_json: bool) -> None:
    """Show or set the limit of active runs.

    Further runs of the tenant wait as pending.
    """
    if no_max_active_runs and max_active_runs is not None:
        raise click.UsageError("give --max-active-runs or --no-max-active-runs, not both")
    is_set = no_max_active_runs or max_active_runs is not None
    run_limits = client.set_limits(max_active_runs) if is_set else client.limits()
    show_answer(run_limits, as_json, lambda _: show_fields(_limits(run_limits)))


@click.command(
    epilog=examples(
        "pipeweave why latest", "pipeweave why 01m80arwk4e7 charge[3]", "pipeweave why latest --all"
    )
)
@click.argument("run")
@click.argument("step", required=False)
@click.option("--all", "is_all", is_flag=True, help="Sum up what all open task runs of the run wait for.")
@json_option
@connected
def why(client: Client, run: str, step: str | None, is_all: bool, as_json: bool) -> None:
    """Explain why a run or a task run does not go on.

    RUN is the id of a run or of a task run, the beginning of one, or `latest`. Of a run it explains STEP, or
    else the step that waits. The reason to resolve first comes first.
    """
    if is_all:
        if step or id_arguments.is_task_run(run):
            raise click.UsageError("--all explains a run, without STEP")
        show_answer(client.why_run(id_arguments.run(client, run)), as_json, _show_all)
        return
    asked = _asked(client, run, step)
    if asked is None:
        show_answer(client.why_run(id_arguments.run(client, run)), as_json, _show_all)
        return
    explanation = client.why(asked)
    if as_json:
        show_json(explanation)
        return
    click.echo(f"{explanation['taskRunId']} is {explanation['status']}")
    if explanation.get("isEdited"):
        click.echo("  its params were edited for this run alone")
    for each in explanation["reasons"]:
        click.echo(f"  {text(each['text'])}")


def _show_all(report: Document) -> None:
    running = f"{report['running']:,} running"
    click.echo(f"{report['summary']}; {running}" if report["summary"] else f"nothing waits; {running}")
    if report.get("reason"):
        click.echo(f"  {text(report['reason']['text'])}")
    if report.get("editedParams"):
        click.echo(f"  its params were edited for this run: {', '.join(report['editedParams'])}")
    for each in report["reasons"]:
        click.echo(f"  {each['count']:,} of {text(each['taskId'])}, {each['status']}: {text(each['text'])}")


def _asked(client: Client, run: str, step: str | None) -> str | None:
    """The task run to explain; None for a run that is open without an open one."""
    from pipeweave.cli.support.outputs import task_run_id_of
    from pipeweave.cli.support.waiting import first_open

    if id_arguments.is_task_run(run):
        return id_arguments.task_run(client, run)
    run_id = id_arguments.run(client, run)
    return task_run_id_of(client, run_id, step) if step else first_open(client.run(run_id))


def _limits(run_limits: Document) -> tuple[tuple[str, object], ...]:
    return (
        ("max active runs", run_limits["maxActiveRuns"] or "unlimited"),
        ("active runs", run_limits["activeRuns"]),
        ("queued runs", run_limits["pendingRuns"]),
    )


def _what(task: str | None) -> str:
    return "the tenant" if task is None else f"task {task}"
