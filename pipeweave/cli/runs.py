"""`pipeweave trigger | dry-run | status | state | output | cancel`: start, show and cancel runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.label_options import read_label_options
from pipeweave.cli.support.rendering import show_answer, show_json, show_table, show_warnings, text, when
from pipeweave.cli.support.run_changes import RunChoice, change_all, filter_options
from pipeweave.cli.support.run_options import (
    follow_to_end,
    given_input,
    pipeline_option,
    timeout_option,
    with_input,
)
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

FAILURE_MODES = ("fail-fast", "continue", "partial-merge")


@click.command(
    epilog=examples(
        "pipeweave trigger nightly --wait",
        'pipeweave trigger nightly -i \'{"day": "2026-11-22"}\' --wait',
        "pipeweave trigger nightly --batch days.jsonl",
    )
)
@click.argument("pipeline")
@with_input
@click.option(
    "--batch",
    type=click.File("rb"),
    help="Start a run for each input of a file: a JSON value per line, or a JSON list; - for stdin.",
)
@click.option("-w", "--wait", is_flag=True, help="Follow the run; exit 0 only if it completes.")
@timeout_option
@click.option(
    "--failure-mode",
    type=click.Choice(FAILURE_MODES),
    help="Overrides the pipeline's failure mode.",
)
@click.option(
    "-p",
    "--priority",
    metavar="N",
    type=int,
    help="Overrides the pipeline's priority; lower numbers start first.",
)
@click.option(
    "--queue",
    metavar="NAME",
    help="Of all steps without a queue of their own. Defaults to those of their tasks.",
)
@click.option(
    "--require",
    "requires",
    multiple=True,
    metavar="LABEL=VALUE",
    callback=read_label_options,
    help="A label of the workers that may call its steps; may be given several times.",
)
@click.option(
    "--run-token",
    help="Makes the trigger repeatable: with the same token and input, the first run is returned.",
)
@click.option(
    "--version",
    metavar="N",
    type=click.IntRange(min=1),
    help="Of the pipeline. Defaults to the current one: the promoted one, else the newest.",
)
@json_option
@connected
@click.pass_context
def trigger(
    ctx: click.Context,
    client: Client,
    pipeline: str,
    inline: str | None,
    file: Any,
    batch: Any,
    wait: bool,
    timeout: float | None,
    failure_mode: str | None,
    priority: int | None,
    queue: str | None,
    requires: Mapping[str, str] | None,
    run_token: str | None,
    version: int | None,
    as_json: bool,
) -> None:
    """Start a run of a pipeline.

    With --batch, it starts a run for each input of a file. With --wait, it follows the run.
    """
    from pipeweave.cli.support.batch import trigger_all

    options: dict[str, Any] = {
        "failure_mode": failure_mode,
        "priority": priority,
        "queue": queue,
        "requires": requires,
        "run_token": run_token,
        "version": version,
    }
    if batch is not None:
        if wait or timeout is not None or inline is not None or file is not None:
            raise click.UsageError("--batch cannot be combined with --input, --file, --wait or --timeout")
        trigger_all(client, pipeline, batch.read(), options, as_json=as_json)
        return
    run = client.trigger(pipeline, given_input(inline, file), **options)
    show_warnings(run.document)
    if run.document.get("skipped"):
        click.echo("no run was started: this one of its key is open", err=True)
    if wait:
        follow_to_end(ctx, client, run.id, timeout, as_json)
    elif as_json:
        show_json(run.document)
    else:
        click.echo(f"{run.id} {run.status}")


@click.command(
    "dry-run",
    epilog=examples(
        "pipeweave dry-run nightly", 'pipeweave dry-run nightly.yaml -i \'{"day": "2026-11-22"}\''
    ),
)
@click.argument("pipeline")
@with_input
@json_option
@connected
@click.pass_context
def dry_run(
    ctx: click.Context, client: Client, pipeline: str, inline: str | None, file: Any, as_json: bool
) -> None:
    """Check a run and show its plan without starting it.

    PIPELINE is a pipeline's id, or a YAML or JSON file. Exits 1 if the run would be refused.
    """
    run_input = given_input(inline, file)
    plans = {id_: client.dry_run(id_, run_input, spec) for id_, spec in _named(pipeline).items()}
    if as_json:
        show_json(next(iter(plans.values())) if len(plans) == 1 else plans)
    else:
        for id_, plan in plans.items():
            _show_plan(id_, plan)
    ctx.exit(0 if all(plan["valid"] for plan in plans.values()) else 1)


def _named(pipeline: str) -> dict[str, Document | None]:
    if not pipeline.endswith((".yaml", ".yml", ".json")):
        return {pipeline: None}
    from pipeweave.cli.support.documents import read_documents

    return {spec.id: spec.to_json() for spec in read_documents(Path(pipeline))}


def _show_plan(pipeline: str, plan: Document) -> None:
    click.echo(f"{pipeline}: {'valid' if plan['valid'] else 'not valid'}")
    for kind in ("errors", "warnings"):
        for each in plan[kind]:
            click.echo(f"{kind[:-1]}: {text(each.get('message', each) if isinstance(each, dict) else each)}")
    if plan.get("schedule"):
        click.echo(f"schedule: {_due(plan['schedule'])}")
    if plan["executionPlan"]:
        show_table(
            ("level", "kind", Column("steps", wraps=True), Column("waits for", wraps=True)),
            [
                (level["step"], level["type"], level["tasks"], level.get("waitsFor"))
                for level in plan["executionPlan"]
            ],
        )
    if plan.get("forecast"):
        from pipeweave.cli.support.forecast_view import show_forecast

        show_forecast(plan["forecast"])


def _due(schedule: Document) -> str:
    times = ", ".join(when(each) for each in schedule["nextFires"]) or "never"
    return f"{schedule['text']}; next (UTC): {times}" if schedule["text"] else f"next (UTC): {times}"


@click.command(epilog=examples("pipeweave status latest", "pipeweave status 01m80arwk4e7 --watch"))
@click.argument("run")
@pipeline_option
@click.option("-w", "--watch", is_flag=True, help="Follow the run; exit 0 only if it completes.")
@json_option
@connected
@click.pass_context
def status(
    ctx: click.Context, client: Client, run: str, pipeline: str | None, watch: bool, as_json: bool
) -> None:
    """Show a run: its steps, output and errors.

    RUN is an id, the beginning of one, or `latest`.
    """
    from pipeweave.cli.support.run_view import show_run
    from pipeweave.cli.support.waiting import why_waiting

    run_id = id_arguments.run(client, run, pipeline)
    if watch:
        follow_to_end(ctx, client, run_id, None, as_json)
    current_run = client.run(run_id)
    if as_json:
        show_json(current_run.document)
        return
    waiting = None if current_run.is_final else why_waiting(client, current_run)
    show_run(current_run, waiting.line if waiting else None)


@click.command(epilog=examples("pipeweave state latest | jq .metrics"))
@click.argument("run")
@pipeline_option
@click.option("--json", "_as_json", is_flag=True, help="Print JSON, as always.")
@connected
def state(client: Client, run: str, pipeline: str | None, _as_json: bool) -> None:
    """Print the state of a run as one JSON document.

    It has each step with its attempts, result and error, what failed, and the run's numbers. RUN is an id,
    the beginning of one, or `latest`.
    """
    show_json(client.state(id_arguments.run(client, run, pipeline)))


@click.command(
    epilog=examples("pipeweave output latest", "pipeweave output 01m80arwk4e7 charge[3] | jq .total")
)
@click.argument("run")
@click.argument("step", required=False)
@pipeline_option
@click.option("--json", "_as_json", is_flag=True, help="Print JSON, as always.")
@connected
def output(client: Client, run: str, step: str | None, pipeline: str | None, _as_json: bool) -> None:
    """Print the output of a run, or of one step, as JSON.

    RUN is an id, the beginning of one, or `latest`. STEP is a step's id; charge[3] is item 3 of the map
    charge. Large values are loaded.
    """
    from pipeweave.cli.support.outputs import output_of_run, output_of_step

    run_id = id_arguments.run(client, run, pipeline)
    show_json(output_of_run(client, run_id) if step is None else output_of_step(client, run_id, step))


@click.command(
    epilog=examples(
        "pipeweave cancel 01m80arwk4e7 --reason 'the wrong day'",
        "pipeweave cancel --pipeline nightly --status pending --dry-run",
    )
)
@click.argument("run", required=False)
@click.option("--reason", help="Stored with the run, and shown wherever the run is shown.")
@click.option("--now", is_flag=True, help="Of one run: no step is taken back, and `finally` does not run.")
@filter_options
@json_option
@connected
def cancel(
    client: Client,
    run: str | None,
    reason: str | None,
    now: bool,
    pipeline: str | None,
    status: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Cancel a run, a standalone task, or all runs that match.

    RUN is an id, the beginning of one, or `latest`; the id of a task run begins with `trun_`. What waits
    never starts. Running attempts may end, but their results are ignored.
    """
    chosen = RunChoice(pipeline, status, dry_run)
    chosen.check(run, "RUN")
    if now and (run is None or id_arguments.is_task_run(run)):
        raise click.UsageError("--now is for one run")
    if chosen:
        change_all(client, "cancel", chosen, reason, as_json=as_json)
        return
    if run is None:
        raise click.UsageError("give RUN, or --pipeline or --status")
    is_task = id_arguments.is_task_run(run)
    id_ = id_arguments.task_run(client, run) if is_task else id_arguments.run(client, run)
    answer = client.cancel_task(id_, reason) if is_task else client.cancel(id_, reason, now=now).document
    show_answer(answer, as_json, f"{id_} {answer['status']}")
