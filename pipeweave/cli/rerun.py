"""`pipeweave rerun`: run a run again that has ended, or all runs that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json, show_warnings
from pipeweave.cli.support.rerun_all import FINAL_STATUSES, Matching, rerun_all
from pipeweave.cli.support.run_options import (
    follow_to_end,
    given_input,
    json_value,
    timeout_option,
    with_input,
)
from pipeweave.cli.support.run_view import edits_of

if TYPE_CHECKING:
    from pipeweave.client import Client


@click.command(
    epilog=examples(
        "pipeweave rerun latest --wait",
        "pipeweave rerun 01m80arwk4e7 --from report",
        'pipeweave rerun 01m80arwk4e7 -i \'{"day": "2026-11-22"}\' --version latest',
        "pipeweave rerun latest --from charge --params '{\"amount\": 5}'",
        "pipeweave rerun --status failed --pipeline nightly --dry-run",
    )
)
@click.argument("run", required=False)
@click.option(
    "--pipeline", help="With `latest`: the newest run of this pipeline. With --status: only its runs."
)
@click.option(
    "--status",
    type=click.Choice(FINAL_STATUSES),
    help=f"Instead of RUN: all runs that ended so: {', '.join(FINAL_STATUSES)}.",
)
@click.option(
    "--created-after", metavar="TIME", help="With --status: only runs created at this time or later."
)
@click.option("--created-before", metavar="TIME", help="With --status: only runs created before this time.")
@click.option("--dry-run", is_flag=True, help="With --status: only count and name the runs that match.")
@click.option(
    "--from", "from_step", metavar="STEP", help="Begin at this step, and reuse the results of others."
)
@with_input
@click.option(
    "--params",
    metavar="JSON",
    callback=lambda ctx, param, value: None if value is None else (json_value(ctx, param, value),),
    help="Other params of the step that --from names, for the new run alone; null for those of its version.",
)
@click.option("--version", metavar="VERSION", help="same (the default), latest, or a number.")
@click.option(
    "--run-token", help="Makes the rerun repeatable: with the same token, the first rerun is returned."
)
@click.option("-w", "--wait", is_flag=True, help="Follow the new run; exit 0 only if it completes.")
@timeout_option
@json_option
@connected
@click.pass_context
def rerun(
    ctx: click.Context,
    client: Client,
    run: str | None,
    pipeline: str | None,
    status: str | None,
    created_after: str | None,
    created_before: str | None,
    dry_run: bool,
    from_step: str | None,
    inline: str | None,
    file: Any,
    params: tuple[Any] | None,
    version: str | None,
    run_token: str | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Run a run again that has ended, as a new run.

    RUN is an id, the beginning of one, or `latest`. With --from, the step and all that follows it run, and
    the results of other steps are reused. Without --input or --file, the input is that of the run; with them,
    reused steps keep the results that they have. --params are those of the step to begin at. With --status
    instead of RUN, all runs that match run again, each with its own input; exit 0 only if none was refused.
    """
    options: dict[str, Any]
    chosen = {"createdAfter": created_after, "createdBefore": created_before}
    if status is not None:
        if run is not None or wait or any(each is not None for each in (timeout, inline, file, params)):
            raise click.UsageError(
                "--status cannot be combined with RUN, --input, --file, --params, --wait or --timeout"
            )
        options = {"fromStep": from_step, "version": _version(version), "runToken": run_token, **chosen}
        members = {name: value for name, value in options.items() if value is not None}
        ctx.exit(not rerun_all(client, Matching(status, pipeline, members, dry_run), as_json=as_json))
    if run is None:
        raise click.UsageError("give RUN or --status")
    if dry_run or any(chosen.values()):
        raise click.UsageError("--dry-run, --created-after and --created-before need --status")
    options = {"from_step": from_step, "run_token": run_token, "version": _version(version)}
    if inline is not None or file is not None:
        options["input"] = given_input(inline, file)
    if params is not None:
        [options["params"]] = params
    made = client.rerun(id_arguments.run(client, run, pipeline), **options)
    show_warnings(made.document)
    if wait:
        follow_to_end(ctx, client, made.id, timeout, as_json)
    elif as_json:
        show_json(made.document)
    else:
        reused = ", ".join(made.document["reusedSteps"])
        click.echo(f"{made.id} {made.status}" + (f", reuses the results of {reused}" if reused else ""))
        for line in edits_of(made.document):
            click.echo(f"edited: {line}")


def _version(version: str | None) -> str | int | None:
    return int(version) if version is not None and version.isdecimal() else version
