"""`pipeweave up | down | ps`: run, stop and list the whole stack on this machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.dashboard import dashboard_lines
from pipeweave.cli.support.extras import check_up
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.process_meter import UseMeter
from pipeweave.cli.support.rendering import seconds, show_json, show_table
from pipeweave.cli.support.stack_folder import stack_command, stack_folder, stack_option
from pipeweave.settings import Settings, load

if TYPE_CHECKING:
    from pipeweave.up.options import UpOptions
    from pipeweave.up.processes import ProcessRow
    from pipeweave.up.stack import Announcement

# Seconds between two looks of `ps --watch`.
WATCH_S = 2.0

_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for all data. Defaults to PIPEWEAVE_DATA_DIR, else .pipeweave in this folder.",
)


@click.command(
    epilog=examples("pipeweave up --app tasks.py", "pipeweave up --app tasks.py --detach --port 0")
)
@_data_dir
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    help="Port of the API; 0 chooses a free one. Defaults to PORT.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Worker processes.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Task runs at once in each worker. Defaults to MAX_CONCURRENCY, else one per processor.",
)
@click.option(
    "--app",
    "apps",
    multiple=True,
    metavar="MODULE|FILE|FOLDER",
    help="Module, file or folder with tasks; may be repeated. Defaults to ./pipelines or ./tasks.py.",
)
@click.option("--flower/--no-flower", "has_flower", default=True, help="Also run Flower, if it is installed.")
@click.option(
    "--reload",
    "is_reloading",
    is_flag=True,
    help="Restart the workers when their code changes (development).",
)
@click.option("--detach", is_flag=True, help="Return when the stack is ready; `pipeweave down` stops it.")
def up(
    data_dir: Path | None,
    port: int | None,
    workers: int,
    concurrency: int | None,
    apps: tuple[str, ...],
    has_flower: bool,
    is_reloading: bool,
    detach: bool,
) -> None:
    """Run everything on this machine.

    Starts PostgreSQL, Valkey, the API, workers, beat and Flower, and restarts what ends. `pipeweave down`
    or Ctrl-C stops it; the data are kept. Without tasks, a dispatcher for HTTP workers takes the place of the
    workers.
    """
    from pipeweave.up.detached import run_detached
    from pipeweave.up.options import UpOptions, default_apps, default_concurrency
    from pipeweave.up.output import Console
    from pipeweave.up.stack import run

    check_up()
    settings = load()
    app_names = tuple(map(_existing, apps)) or default_apps(Path.cwd())
    options = UpOptions(
        data_dir=_folder(settings, data_dir),
        host=settings.host,
        port=settings.port if port is None else port,
        workers=workers if app_names else 0,
        concurrency=concurrency or default_concurrency(settings),
        apps=app_names,
        tenant=settings.tenant,
        secret_key=settings.secret_key,
        has_flower=has_flower,
        mode=settings.mode,
        is_reloading=is_reloading,
    )
    if detach:
        _announce(run_detached(options), options, f"{stack_command('down', options.data_dir)} stops it")
    else:
        run(options, Console(sys.stdout), lambda ready: _announce(ready, options, "Ctrl-C stops it"))


@click.command()
@stack_option
def down(data_dir: Path | None) -> None:
    """Stop the processes that `up` started. The data are kept."""
    from pipeweave.up.control import stop

    folder = stack_folder(data_dir)
    stopped = stop(folder)
    click.echo(f"Stopped {', '.join(stopped)}" if stopped else f"No stack runs in {folder}")


@click.command()
@stack_option
@click.option("--watch", "is_watching", is_flag=True, help="Print them anew every two seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def ps(ctx: click.Context, data_dir: Path | None, is_watching: bool, as_json: bool) -> None:
    """List the processes of `up`, and what they use.

    Exits 1 if no stack runs. With --json, uptime is in seconds. CPU is in percent of one processor, over the
    last moments; memory is the proportional share of a process with all that it started (Linux).
    """
    folder = stack_folder(data_dir)
    meter = UseMeter()
    while (rows := _rows(folder)) is not None:
        shown = meter.measure(rows)
        if is_watching and not as_json:
            click.clear()
        _show(shown, as_json=as_json)
        if not is_watching:
            ctx.exit(0)
        time.sleep(WATCH_S)
    if as_json:
        show_json([])
    else:
        click.echo(f"No stack runs in {folder}", err=True)
    ctx.exit(1)


def _folder(settings: Settings, data_dir: Path | None) -> Path:
    return (data_dir or Path(settings.data_dir)).absolute()


def _existing(app: str) -> str:
    """Refuse a path that does not exist; whether an app can be imported is checked by the worker."""
    if (app.endswith(".py") or "/" in app) and not Path(app).exists():
        raise click.BadParameter(f"{app} does not exist", param_hint="--app")
    return app


def _announce(ready: Announcement, options: UpOptions, how_to_stop: str) -> None:
    lines = [
        f"PipeWeave is ready: {ready.connection.url}",
        f"Connection: {options.data_dir / 'connection.json'}",
        *dashboard_lines(ready, again=stack_command("open", options.data_dir)),
    ]
    click.echo("\n".join([*lines, *ready.notes, how_to_stop]))


def _rows(folder: Path) -> list[ProcessRow] | None:
    from pipeweave.up.control import processes

    return processes(folder)


def _show(shown: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        show_json(shown)
        return
    from pipeweave.cli.support.tables import Column

    names = ("name", "pid", "state", "uptime", "restarts", "cpu", "memory")
    columns = [*map(Column, names), Column("note", wraps=True)]
    rows = [{**row, "uptime": seconds(row["uptime"])} for row in shown]
    show_table(columns, [[*(row[name] for name in names[:5]), *_use(row), _state_of(row)] for row in rows])


def _use(row: dict[str, Any]) -> tuple[str | None, str | None]:
    cpu, memory = row["cpuPercent"], row["memoryBytes"]
    return None if cpu is None else f"{cpu:.0f} %", None if memory is None else f"{memory / 10**6:,.0f} MB"


def _state_of(row: dict[str, Any]) -> str | None:
    """Why a process restarts or has restarted; else what it runs."""
    last_exit: str | None = row["lastExit"]
    about: str | None = row["about"]
    return last_exit or about
