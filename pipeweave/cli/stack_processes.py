"""`pipeweave restart | stop | start | scale`: change the processes of the stack in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.stack_folder import stack_folder, stack_option
from pipeweave.cli.support.stack_processes import SERVERS, WORKER, ask, check_names, listed, rows_of
from pipeweave.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from pipeweave.up.processes import ProcessRow


@click.command(
    epilog=examples("pipeweave restart", "pipeweave restart worker-1 beat", "pipeweave restart --all")
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "is_all", is_flag=True, help="Restart every process but PostgreSQL and Valkey.")
@json_option
@stack_option
def restart(names: tuple[str, ...], is_all: bool, as_json: bool, data_dir: Path | None) -> None:
    """Restart the workers, or the processes with these names.

    NAME is a process of `pipeweave ps`. A new worker starts before the old one ends: work goes on, and
    running task runs get 8 seconds to end. Returns when the processes are ready. A worker whose new code
    cannot be loaded is not replaced.
    """
    from pipeweave.up.process_requests import ProcessVerb

    folder = stack_folder(data_dir)
    chosen = _chosen(rows_of(folder), names, is_all=is_all)
    ask(folder, [(ProcessVerb.RESTART, chosen)], as_json=as_json)


@click.command(epilog=examples("pipeweave stop worker-2", "pipeweave stop beat"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@stack_option
def stop(names: tuple[str, ...], as_json: bool, data_dir: Path | None) -> None:
    """Stop processes of the stack; they stay away until `start`.

    NAME is a process of `pipeweave ps`. Task runs of a worker get 8 seconds to end; then other workers
    take them over, and no attempt is used up. `pipeweave down` stops the whole stack.
    """
    from pipeweave.up.process_requests import ProcessVerb

    folder = stack_folder(data_dir)
    check_names(rows_of(folder), names)
    if server := next((name for name in names if name in SERVERS), None):
        raise Conflict(f"{server} keeps the data of the stack", hint="`pipeweave down` stops everything")
    ask(folder, [(ProcessVerb.STOP, list(dict.fromkeys(names)))], as_json=as_json)


@click.command(epilog=examples("pipeweave start worker-2"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@stack_option
def start(names: tuple[str, ...], as_json: bool, data_dir: Path | None) -> None:
    """Start processes of the stack that were stopped.

    NAME is a process of `pipeweave ps`. Returns when they are ready. `pipeweave up` starts a stack.
    """
    from pipeweave.up.process_requests import ProcessVerb

    folder = stack_folder(data_dir)
    check_names(rows_of(folder), names)
    ask(folder, [(ProcessVerb.START, list(dict.fromkeys(names)))], as_json=as_json)


@click.command(epilog=examples("pipeweave scale worker 3"))
@click.argument("kind", type=click.Choice(["worker"]))
@click.argument("count", type=click.IntRange(1, 64), metavar="N")
@json_option
@stack_option
def scale(kind: str, count: int, as_json: bool, data_dir: Path | None) -> None:
    """Let N workers run in the stack: start or remove some.

    The workers with the highest numbers go, one after another. Their task runs get 8 seconds to end; then
    other workers take them over, and no attempt is used up. The next `up` starts with --workers again.
    """
    from pipeweave.up.process_requests import ProcessVerb

    folder = stack_folder(data_dir)
    rows = rows_of(folder)
    state = {int(row.name.removeprefix(WORKER)): row.state for row in rows if row.name.startswith(WORKER)}
    if not state:
        raise Conflict("this stack runs no workers: `up` found no tasks", hint=listed(rows))
    missing = [number for number in range(1, count + 1) if state.get(number, "stopped") == "stopped"]
    surplus = sorted((number for number in state if number > count), reverse=True)
    asked = [(ProcessVerb.START, missing), (ProcessVerb.REMOVE, surplus)]
    ask(folder, [(verb, [f"{WORKER}{each}" for each in numbers]) for verb, numbers in asked], as_json=as_json)
    if not (missing or surplus or as_json):
        click.echo(f"{count} {kind}{'s' * (count > 1)} {'run' if count > 1 else 'runs'} already")


def _chosen(rows: list[ProcessRow], names: tuple[str, ...], *, is_all: bool) -> list[str]:
    if is_all and names:
        raise InvalidInput("--all and names exclude each other", hint="give one of them")
    check_names(rows, names)
    # Who was stopped on request comes back by name alone.
    known = list(dict.fromkeys(row.name for row in rows if row.state != "stopped"))
    if is_all:
        return [name for name in known if name not in SERVERS]
    workers = [name for name in known if name.startswith(WORKER)]
    if not names and not workers:
        raise Conflict("no worker runs in this stack", hint=listed(rows))
    return list(dict.fromkeys(names)) or workers
