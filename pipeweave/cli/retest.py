"""`pipeweave retest`: call the code of today with the inputs of recorded runs, and compare the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json, text
from pipeweave.spec.kinds import CALLED

if TYPE_CHECKING:
    from pipeweave.authoring import Task
    from pipeweave.client import Client, Document
    from pipeweave.testing.retesting import Retested

# Differences of one result that are shown.
MOST_DIFFERENCES = 10


@click.command(
    epilog=examples(
        "pipeweave retest latest --app shop.tasks",
        "pipeweave retest --pipeline nightly --last 20 --app shop.tasks",
    )
)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--app", "apps", required=True, multiple=True, metavar="MODULE", help="Where the code is.")
@click.option("--pipeline", help="With --last, or `latest`: of this pipeline.")
@click.option("--last", metavar="N", type=click.IntRange(1, 1_000), help="The newest completed runs.")
@click.option("--only", multiple=True, metavar="TASK", help="Call only these tasks.")
@json_option
@connected
@click.pass_context
def retest(
    ctx: click.Context,
    client: Client,
    runs: tuple[str, ...],
    apps: tuple[str, ...],
    pipeline: str | None,
    last: int | None,
    only: tuple[str, ...],
    as_json: bool,
) -> None:
    """Call today's code with the inputs of recorded runs.

    Each completed step is called here with what its attempt was called with, and its result and its choice of
    successors are compared. Nothing is stored or sent: a call that connects to something or starts a process
    is skipped, with the reason. Exits 1 if a result differs or a call fails.
    """
    from pipeweave.authoring.task_loading import load

    if bool(runs) == (last is not None):
        raise click.UsageError("give either runs, or --last")
    tasks = load(apps, may_lack_tasks=True).tasks
    counts: Counter[str] = Counter()
    rows = []
    for row in _rows(client, _chosen(client, runs, pipeline, last), tasks, only):
        counts[row["verdict"]] += 1
        if as_json:
            rows.append(row)
        else:
            _show(row)
    if as_json:
        show_json({"counts": dict(counts), "steps": rows})
    else:
        names = ("same", "different", "failed", "skipped")
        click.echo(", ".join(f"{counts[name]:,} {name}" for name in names), err=True)
    ctx.exit(1 if counts["different"] or counts["failed"] else 0)


def _chosen(client: Client, runs: tuple[str, ...], pipeline: str | None, last: int | None) -> Iterator[str]:
    if last is None:
        yield from (id_arguments.run(client, each, pipeline) for each in runs)
    else:
        for each in client.runs(status="completed", pipeline_id=pipeline, limit=last).items:
            yield each["id"]


def _rows(
    client: Client, run_ids: Iterator[str], tasks: Mapping[str, Task[..., Any]], only: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    from pipeweave.testing.retesting import retest as call_again

    for run_id in run_ids:
        listed = [each for each in client.task_runs(run_id) if each["status"] == "completed"]
        details = [client.task_run(each["id"], load=True) for each in listed]
        outputs = {each["stepId"]: each["output"] for each in details if each.get("mapIndex") is None}
        for each in details:
            if each["kind"] in CALLED and (not only or each["taskId"] in only):
                yield _row(run_id, each, call_again(tasks.get(each["taskId"]), each, outputs))


def _row(run_id: str, recorded: Document, outcome: Retested) -> dict[str, Any]:
    from dataclasses import asdict

    from pipeweave.orchestrator.domain import json_differences

    row = {
        "run": run_id,
        "step": recorded["stepId"],
        "mapIndex": recorded.get("mapIndex"),
        "task": recorded["taskId"],
        "verdict": outcome.verdict,
        "why": outcome.why,
    }
    if outcome.verdict != "different":
        return row
    changes, is_complete = json_differences.differences(recorded["output"], outcome.output, MOST_DIFFERENCES)
    chosen = None if outcome.run_next is None else list(outcome.run_next)
    return row | {
        "differences": [asdict(each) for each in changes],
        "isComplete": is_complete,
        "choice": None if chosen == recorded["selectedNext"] else [recorded["selectedNext"], chosen],
    }


def _show(row: Mapping[str, Any]) -> None:
    index = "" if row["mapIndex"] is None else f"[{row['mapIndex']}]"
    why = f": {row['why']}" if row["why"] else ""
    click.echo(text(f"{row['run']} {row['step']}{index} {row['verdict']}{why}"))
    for each in row.get("differences", ()):
        click.echo("  " + text(f"{each['path'] or 'output'}: {each['before']!r} -> {each['after']!r}"))
    if row.get("choice"):
        click.echo("  " + text("chose: {} -> {}".format(*row["choice"])))
    if row.get("isComplete") is False:
        click.echo("  and more")
