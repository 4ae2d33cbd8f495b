"""`pipeweave rerun`: run a run again that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.runs import follow_to_end, given_input, pipeline_option, with_input
from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples

if TYPE_CHECKING:
    from pipeweave.client import Client


@click.command(
    epilog=examples(
        "pipeweave rerun latest --wait",
        "pipeweave rerun 01m80arwk4e7 --from report",
        'pipeweave rerun 01m80arwk4e7 -i \'{"day": "2026-11-22"}\' --version latest',
    )
)
@click.argument("run")
@pipeline_option
@click.option(
    "--from", "from_step", metavar="STEP", help="Begin at this step, and reuse the results of others."
)
@with_input
@click.option("--version", metavar="VERSION", help="same (the default), latest, or a number.")
@click.option(
    "--run-token", help="Makes the rerun repeatable: with the same token, the first rerun is returned."
)
@click.option("-w", "--wait", is_flag=True, help="Follow the new run; exit 0 only if it completes.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="With --wait: give up after this many seconds.",
)
@json_option
@connected
@click.pass_context
def rerun(
    ctx: click.Context,
    client: Client,
    run: str,
    pipeline: str | None,
    from_step: str | None,
    inline: str | None,
    file: Any,
    version: str | None,
    run_token: str | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Run a run again that has ended, as a new run.

    RUN is an id, the beginning of one, or `latest`. With --from, the step and all that follows it run, and
    the results of other steps are reused. Without --input or --file, the input is that of the run.
    """
    from pipeweave.cli.support.rendering import show_json, show_warnings

    options: dict[str, Any] = {"from_step": from_step, "run_token": run_token}
    if inline is not None or file is not None:
        options["input"] = given_input(inline, file)
    if version is not None:
        options["version"] = int(version) if version.isdecimal() else version
    made = client.rerun(id_arguments.run(client, run, pipeline), **options)
    show_warnings(made.document)
    if wait:
        follow_to_end(ctx, client, made.id, timeout, as_json)
    elif as_json:
        show_json(made.document)
    else:
        reused = ", ".join(made.document["reusedSteps"])
        click.echo(f"{made.id} {made.status}" + (f", reuses the results of {reused}" if reused else ""))
