"""`pipeweave restart`: restart processes of the stack in this folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json
from pipeweave.cli.support.stack_folder import stack_folder, stack_option
from pipeweave.errors import Conflict, InvalidInput, NotFound, Unavailable
from pipeweave.suggestions import did_you_mean

if TYPE_CHECKING:
    from pipeweave.up.processes import ProcessRow

_WORKER = "worker-"
# The servers keep the data, and the watchdog watches the supervisor: new code changes none of them.
_SERVERS, _WATCHDOG = ("postgres", "valkey"), "watchdog"


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
    from pipeweave.up import requests
    from pipeweave.up.control import processes

    folder = stack_folder(data_dir)
    rows = processes(folder)
    if rows is None:
        raise Unavailable(f"no stack runs in {folder}", hint="start one with `pipeweave up`")
    chosen = _chosen(rows, names, is_all=is_all)
    restarted: list[str] = []

    def tell(name: str) -> None:
        restarted.append(name)
        if not as_json:
            click.echo(f"Restarted {name}")

    requests.send(folder, chosen, tell)
    if as_json:
        show_json({"restarted": restarted})


def _chosen(rows: list[ProcessRow], names: tuple[str, ...], *, is_all: bool) -> list[str]:
    known = list(dict.fromkeys(row.name for row in rows if row.name != _WATCHDOG))
    if is_all and names:
        raise InvalidInput("--all and names exclude each other", hint="give one of them")
    if is_all:
        return [name for name in known if name not in _SERVERS]
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known)
            raise NotFound(f"process {name!r} not found", hint=f"{meant} " * bool(meant) + _listed(known))
    workers = [name for name in known if name.startswith(_WORKER)]
    if not names and not workers:
        raise Conflict("no worker runs in this stack", hint=_listed(known))
    return list(dict.fromkeys(names)) or workers


def _listed(known: list[str]) -> str:
    return f"the stack has {', '.join(known)}"
