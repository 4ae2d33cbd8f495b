"""`pipeweave api | worker | beat`: run one process of a deployment, on any number of hosts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.imports import importing
from pipeweave.cli.support.label_options import read_label_options
from pipeweave.cli.worker_check import check
from pipeweave.settings import connecting, load

if TYPE_CHECKING:
    from pipeweave.labels import Labels
    from pipeweave.workers.process.health_server import HealthAddress

# These commands have no --json: a process writes to its log and prints no result.
_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Join the stack that `pipeweave up` runs with this data directory.",
)

_tenant = click.option(
    "--tenant", help="The tenant to work for. Defaults to PIPEWEAVE_TENANT, or to that of the stack."
)


def _with_health(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --health-port and --health-host to a command, and pass it the address as `health`, or None."""

    @click.option(
        "--health-port",
        metavar="N",
        type=click.IntRange(0, 65535),
        help="Answer GET /health of this process on this port; 0 for a free one.",
    )
    @click.option("--health-host", default="127.0.0.1", show_default=True, help="Address of the health port.")
    @functools.wraps(command)
    def with_address(*args: Any, health_port: int | None, health_host: str, **options: Any) -> Any:
        return command(*args, health=_address(health_host, health_port), **options)

    return with_address


def _address(host: str, port: int | None) -> HealthAddress | None:
    if port is None:
        return None
    # Here, because `worker check` needs nothing of a worker.
    from pipeweave.workers.process.health_server import HealthAddress

    return HealthAddress(port, host)


@click.command()
@click.option("--host", help="Address to listen on. Defaults to PIPEWEAVE_HOST.")
@click.option(
    "--port", metavar="N", type=click.IntRange(1, 65535), help="Port to listen on. Defaults to PORT."
)
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="API processes.",
)
@_data_dir
def api(host: str | None, port: int | None, processes: int, data_dir: Path | None) -> None:
    """Serve the HTTP API until SIGINT or SIGTERM."""
    with importing():
        from pipeweave.api.serve import serve

    serve(connecting.servers(load(), data_dir), host, port, processes=processes)


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "pipeweave worker --app shop.tasks --concurrency 4",
        "pipeweave worker --app tasks.py --queues gpu,default",
        "pipeweave worker --app tasks.py --label gpu=a100 --label zone=eu",
    ),
)
@click.option(
    "--app",
    "apps",
    multiple=True,
    metavar="MODULE|FILE|FOLDER",
    help="Module, file or folder with tasks and pipelines; may be given several times.",
)
@click.option("--service", default="python", show_default=True, help="The service to register as.")
@click.option("--name", help="Name of this worker. Defaults to host and process id.")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Task runs at once. Defaults to MAX_CONCURRENCY.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=30.0,
    show_default=True,
    help="Seconds that running task runs get after SIGTERM to finish; then other workers take them over.",
)
@click.option(
    "--queues",
    metavar="NAME,NAME",
    help="Serve only these queues; `default` is that of tasks that name none. Defaults to all of its tasks.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="LABEL=VALUE",
    callback=read_label_options,
    help="A label of this machine, for tasks that require it; may be given several times. Defaults to "
    "WORKER_LABELS.",
)
@click.option(
    "--adapters",
    "with_adapters",
    is_flag=True,
    help="Run the adapters that PipeWeave brings (http, webhook, storage, log, celery) beside the tasks.",
)
@click.option(
    "--bundles",
    "with_bundles",
    is_flag=True,
    help="Run the bundles that are installed for the tenant, each call in a box, instead of an app.",
)
@_with_health
@_tenant
@_data_dir
@click.pass_context
def worker(
    ctx: click.Context,
    apps: tuple[str, ...],
    service: str,
    name: str | None,
    concurrency: int | None,
    grace: float,
    queues: str | None,
    labels: Labels | None,
    with_adapters: bool,
    with_bundles: bool,
    tenant: str | None,
    data_dir: Path | None,
    health: HealthAddress | None,
) -> None:
    """Register the tasks of an app and run them."""
    if ctx.invoked_subcommand is not None:
        return
    if with_bundles and (apps or with_adapters or queues):
        raise click.UsageError("--bundles takes no --app, --adapters or --queues: start another worker")
    if not apps and not with_bundles:
        raise click.MissingParameter(
            ctx=ctx, param=next(each for each in worker.params if each.name == "apps")
        )
    with importing():
        from pipeweave.workers.process.launch import run_worker

    run_worker(
        connecting.servers(load(), data_dir, tenant),
        list(apps),
        service=service,
        name=name,
        concurrency=concurrency,
        grace_s=grace,
        queues=[each.strip() for each in (queues or "").split(",") if each.strip()],
        labels=labels,
        with_adapters=with_adapters,
        with_bundles=with_bundles,
        health=health,
    )


worker.add_command(check)


@click.command(epilog=examples("pipeweave dispatcher --concurrency 2"))
@click.option("--name", help="Name of this worker. Defaults to host and process id.")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=2,
    show_default=True,
    help="Processes; each sends up to 16 dispatches at a time.",
)
@_with_health
@_tenant
@_data_dir
def dispatcher(
    name: str | None,
    concurrency: int,
    tenant: str | None,
    data_dir: Path | None,
    health: HealthAddress | None,
) -> None:
    """Dispatch task runs to HTTP services, and run no tasks.

    Every worker does that, too, unless it has --queues. A dispatcher never waits for a long Python task.
    It works for one tenant, which must exist.
    """
    with importing():
        from pipeweave.workers.process.launch import run_worker

    settings = connecting.servers(load(), data_dir, tenant)
    run_worker(settings, (), name=name, concurrency=concurrency, health=health)


@click.command()
@_with_health
@_data_dir
def beat(data_dir: Path | None, health: HealthAddress | None) -> None:
    """Run the scheduler loop, which recovers lost work.

    Several beats may run; only one acts at a time.
    """
    with importing():
        from pipeweave.workers.process.launch import run_beat

    run_beat(connecting.servers(load(), data_dir), health)
