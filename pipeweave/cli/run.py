"""`pipeweave run`: start a run, and work on it here until it ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from pipeweave.cli.support.connection import data_dir_option, json_option, open_client
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_warnings
from pipeweave.cli.support.run_options import follow_to_end, given_input, with_input
from pipeweave.errors import InvalidInput
from pipeweave.settings import Settings, connecting, load

_HOW_TO_ADD_TASKS = "put them in ./tasks.py or ./pipelines/, or name them with --app MODULE|FILE|FOLDER"


@click.command(
    epilog=examples(
        "pipeweave run nightly", 'pipeweave run nightly --app tasks.py -i \'{"day": "2026-11-22"}\''
    )
)
@click.argument("pipeline")
@with_input
@click.option(
    "--app",
    "apps",
    multiple=True,
    metavar="MODULE|FILE|FOLDER",
    help="Module, file or folder with tasks; may be repeated. Defaults to ./pipelines or ./tasks.py.",
)
@click.option("--service", default="python", show_default=True, help="The service to register as.")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Task runs at once. Defaults to MAX_CONCURRENCY, else one per processor.",
)
@click.option(
    "--tenant", help="The tenant to work for. Defaults to PIPEWEAVE_TENANT, or to that of the stack."
)
@json_option
@data_dir_option
@click.pass_context
def run(
    ctx: click.Context,
    pipeline: str,
    inline: str | None,
    file: Any,
    apps: tuple[str, ...],
    service: str,
    concurrency: int | None,
    tenant: str | None,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Start a run of a pipeline, and work on it here until it ends.

    A worker of this command's own registers the tasks and runs them; it ends with the run. Exits 0 only if
    the run completes. After Ctrl-C, the run is left to the workers of the deployment.
    """
    from pipeweave.cli.support.own_worker import OwnWorker
    from pipeweave.up.options import default_apps, default_concurrency

    run_input = given_input(inline, file)
    settings = connecting.servers(load(), data_dir, tenant)
    names = apps or default_apps(Path.cwd())
    if not names:
        raise InvalidInput("there are no tasks to load", hint=_HOW_TO_ADD_TASKS)
    worker = OwnWorker(
        settings,
        [
            *(part for app in names for part in ("--app", app)),
            *("--service", service, "--name", f"run-{os.getpid()}"),
            *("--concurrency", str(concurrency or default_concurrency(settings))),
            *(("--data-dir", str(data_dir)) if data_dir else ()),
            *(("--tenant", tenant) if tenant else ()),
        ],
    )
    with open_client(_address(settings)) as client, worker:
        triggered = client.trigger(pipeline, run_input)
        show_warnings(triggered.document)
        try:
            follow_to_end(ctx, client, triggered.id, None, as_json)
        except KeyboardInterrupt:
            click.echo(
                f"{triggered.id} goes on without this command: pipeweave status {triggered.id}", err=True
            )
            raise


def _address(settings: Settings) -> connecting.OrchestratorAddress:
    if settings.orchestrator_url is None:
        raise connecting.no_orchestrator(settings)
    return connecting.OrchestratorAddress(
        settings.orchestrator_url, settings.api_token, settings.chosen_tenant
    )
