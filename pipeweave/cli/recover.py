"""`pipeweave recover`: show stalled work, and run ticks until it is recovered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pipeweave import ids
from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.deployment_options import with_deployment
from pipeweave.cli.support.rendering import moment, show_json, show_table, when
from pipeweave.cli.support.tables import Column
from pipeweave.settings import Settings

if TYPE_CHECKING:
    from pipeweave.orchestrator.diagnosis import repeated_ticks, stalled

# Counter of a tick -> words for people.
_DONE = {
    "republished": "messages sent again",
    "joins_checked": "joins checked",
    "followers_brought": "task runs moved to the changed queue of their task",
    "limits_filled": "limits with task runs started",
    "workers_lost": "workers declared lost",
    "attempts_ended": "attempts ended",
    "retries_released": "retries released",
    "runs_timed_out": "runs timed out",
}


@click.command()
@click.option(
    "--auto-resume",
    is_flag=True,
    help="Run the scheduler loop here until nothing is stuck, or nothing changes any more.",
)
@json_option
@with_deployment
@click.pass_context
def recover(ctx: click.Context, settings: Settings, auto_resume: bool, as_json: bool) -> None:
    """Show stuck work, and recover it.

    Says since when, why, and what recovers it. Exits 1 if something is stuck.
    """
    from pipeweave.orchestrator.deployment import Deployment
    from pipeweave.orchestrator.diagnosis import repeated_ticks

    deployment = Deployment.open(settings, pool_size=1)
    try:
        done = repeated_ticks.tick_until_settled(deployment) if auto_resume else None
        left = repeated_ticks.find_stalled(deployment) if done is None else done.left
    finally:
        deployment.close()
    if as_json:
        _show_json(left, done)
    else:
        _show(left, done)
    ctx.exit(1 if left else 0)


def _show(left: Sequence[stalled.StalledItem], done: repeated_ticks.RecoveryResult | None) -> None:
    if done is not None:
        counts = [f"{_DONE.get(name, name)} ({number:,})" for name, number in sorted(done.done.items())]
        did = ", ".join(counts) or "nothing to do"
        click.echo(
            f"Stuck: {len(done.stalled):,}. Passes of the scheduler loop: {done.ticks:,}. Done: {did}."
        )
    texts = (Column(name, wraps=True) for name in ("why", "what recovers it"))
    columns: list[Column | str] = ["kind", "run", "task run", moment("since (UTC)"), *texts]
    shown = [_document(each) for each in left]
    rows = [
        (each["kind"], each["run"], each["taskRun"], when(each["since"]), each["why"], each["whatHeals"])
        for each in shown
    ]
    show_table(columns, rows, none="Nothing is stuck.")
    if done is not None and _was_silent(done.stalled) and not _was_silent(left):
        # The ticks of this command hide that no other process runs ticks.
        click.echo("No other process runs the scheduler loop: start `pipeweave beat`.", err=True)


def _was_silent(stalled_items: Sequence[stalled.StalledItem]) -> bool:
    return any(each.kind.value == "tick_silent" for each in stalled_items)


def _show_json(left: Sequence[stalled.StalledItem], done: repeated_ticks.RecoveryResult | None) -> None:
    document: dict[str, Any] = {"stale": [_document(each) for each in left]}
    if done is not None:
        document["found"] = [_document(each) for each in done.stalled]
        document["ticks"] = done.ticks
        document["done"] = {_camel(name): number for name, number in done.done.items()}
    show_json(document)


def _document(each: stalled.StalledItem) -> dict[str, Any]:
    from pipeweave.orchestrator.domain import iso

    return {
        "kind": each.kind.value,
        "run": None if each.run_id is None else ids.show(ids.RUN, each.run_id),
        "taskRun": None if each.task_run_id is None else ids.show(ids.TASK_RUN, each.task_run_id),
        "since": iso(each.since),
        "why": each.why,
        "whatHeals": each.remedy,
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
