"""`pipeweave logs`: show the log files of the stack in this folder as one log, or the stored log of a run or
task run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import json_option, open_client
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.id_arguments import LATEST
from pipeweave.cli.support.rendering import is_terminal
from pipeweave.cli.support.run_changes import is_run
from pipeweave.cli.support.stack_folder import stack_folder, stack_option
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.settings import connecting, load_for_client
from pipeweave.suggestions import did_you_mean
from pipeweave.terminal_lines import for_people

if TYPE_CHECKING:
    from pipeweave.up.log_files import LogEntry
    from pipeweave.up.log_line import ProcessLogLine

# Members of a line that name a run or a task run; `--run` looks at them.
RUN_MEMBERS = ("run_id", "task_run_id")
_LEAST_RUN_LETTERS = 6


@click.command(
    epilog=examples(
        "pipeweave logs -f",
        "pipeweave logs worker-1 -n 20",
        "pipeweave logs --run prun_01m80arwk4es7bk8x0dg000000",
        "pipeweave logs latest -f",
        "pipeweave logs trun_01m80arwk4es7bk8x0dg000001 -f",
    )
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--run",
    metavar="ID",
    help="Only lines of this run or task run: its id, the beginning of it, or `latest`.",
)
@click.option(
    "-n",
    "--lines",
    "count",
    metavar="N",
    type=click.IntRange(0, 1_000_000),
    default=100,
    show_default=True,
    help="Lines to show.",
)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Keep printing new lines until Ctrl-C; of a run or task run, until it has ended.",
)
@click.option(
    "--attempt",
    metavar="N",
    type=click.IntRange(1),
    help="Of a task run: the log of this attempt. Defaults to the present one.",
)
@click.option("--tenant", help="Of a run or task run: its tenant; by default the only tenant of the token.")
@json_option
@stack_option
def logs(
    names: tuple[str, ...],
    run: str | None,
    count: int,
    follow: bool,
    attempt: int | None,
    tenant: str | None,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """Show the logs of the processes of `up`, sorted by time.

    NAME is a process of `pipeweave ps`; all by default. The logs are files of this machine: workers on other
    hosts are not among them. Of a run (its id, the beginning of one with `prun_`, or `latest`) or a task run
    (`trun_`), what its tasks logged is shown, wherever they ran.
    """
    from pipeweave.up import log_files

    if names and (id_arguments.is_task_run(names[0]) or is_run(names[0])):
        _show_stored(names, run, attempt, count, follow, as_json, tenant, data_dir)
        return
    if attempt is not None:
        raise click.UsageError("--attempt needs the id of a task run")
    if tenant is not None:
        raise click.UsageError("--tenant needs the id of a run or task run, or `latest`, as NAME")

    stack = stack_folder(data_dir)
    folder = stack / "logs"
    run = _latest(stack) if run == LATEST else run
    chosen = _chosen(log_files.names(folder), names, folder)
    wanted = _wanted(run)
    if run is None:
        shown = log_files.last(folder, chosen, count)
    else:
        shown = log_files.matching(folder, chosen, run, lambda line: _is_of(line, wanted), count)
    fresh: Iterator[LogEntry] = log_files.follow(folder, chosen) if follow else iter(())
    later = (each for each in fresh if not wanted or _is_of(each.line, wanted))
    _print(chain(shown, later), as_json=as_json)
    if not shown and not follow and not as_json:
        click.echo("No log lines." if run is None else f"No log lines of {run} on this machine.", err=True)


def _show_stored(
    names: tuple[str, ...],
    run: str | None,
    attempt: int | None,
    count: int,
    follow: bool,
    as_json: bool,
    tenant: str | None,
    data_dir: Path | None,
) -> None:
    from pipeweave.cli.support import run_logs, stored_logs

    if len(names) > 1 or run is not None:
        raise click.UsageError("the id of a run or task run stands alone, without NAME or --run")
    if attempt is not None and is_run(names[0]):
        raise click.UsageError("--attempt needs the id of a task run")
    with open_client(connecting.orchestrator(load_for_client(), tenant=tenant, data_dir=data_dir)) as client:
        if is_run(names[0]):
            run_id = id_arguments.run(client, names[0])
            run_logs.show(client, run_id, count=count, follow=follow, as_json=as_json)
            return
        task_run = id_arguments.task_run(client, names[0])
        stored_logs.show(client, task_run, attempt=attempt, count=count, follow=follow, as_json=as_json)


def _latest(stack: Path) -> str:
    """The id of the newest run, which the API of the stack knows."""
    with open_client(connecting.orchestrator(load_for_client(), data_dir=stack)) as client:
        return id_arguments.run(client, LATEST)


def _chosen(known: list[str], names: tuple[str, ...], folder: Path) -> list[str]:
    if not known:
        raise NotFound(
            f"there are no logs in {folder}", hint="`pipeweave up` writes them; or give --data-dir"
        )
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known)
            listed = f"there are logs of {', '.join(known)}"
            raise NotFound(f"process {name!r} has no log", hint=f"{meant} {listed}" if meant else listed)
    return list(names) or known


def _wanted(run: str | None) -> str:
    if run is not None and len(run) < _LEAST_RUN_LETTERS:
        raise InvalidInput(
            f"{run!r} is too short for the id of a run", hint="ids look like prun_01m80arwk4es…"
        )
    return run or ""


def _is_of(line: ProcessLogLine, run: str) -> bool:
    return any(str(line.fields.get(name, "")).startswith(run) for name in RUN_MEMBERS)


def _print(entries: Iterable[LogEntry], *, as_json: bool) -> None:
    for entry in entries:
        click.echo(_as_json(entry) if as_json else _for_people(entry))
        sys.stdout.flush()


def _as_json(entry: LogEntry) -> str:
    """One object per line, as the log has it, with the name of the process."""
    import orjson

    line = entry.line
    own = {
        "process": entry.process,
        "time": entry.time.isoformat(timespec="milliseconds"),
        "level": line.level,
        "message": line.message,
    }
    return orjson.dumps({**own, **line.fields}, default=str).decode()


def _for_people(entry: LogEntry) -> str:
    line = entry.line
    return for_people(
        entry.time, line.level, line.message, line.fields, process=entry.process, is_coloured=is_terminal()
    )
