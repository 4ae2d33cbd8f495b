"""The processes of a stack, for commands that ask its supervisor to do something to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeweave.cli.support.rendering import show_json
from pipeweave.errors import NotFound, Unavailable
from pipeweave.suggestions import did_you_mean

if TYPE_CHECKING:
    from pipeweave.up.process_requests import ProcessVerb
    from pipeweave.up.processes import ProcessRow

WORKER = "worker-"
SERVERS = ("postgres", "valkey")
"""They keep the data."""
# It watches the supervisor, and is no process for people.
_WATCHDOG = "watchdog"


def rows_of(folder: Path) -> list[ProcessRow]:
    """The processes of the stack with this data directory.

    Raises:
        Unavailable: no stack runs there.
    """
    from pipeweave.up.control import processes

    rows = processes(folder)
    if rows is None:
        raise Unavailable(f"no stack runs in {folder}", hint="start one with `pipeweave up`")
    return [row for row in rows if row.name != _WATCHDOG]


def listed(rows: Sequence[ProcessRow]) -> str:
    """The names of the processes, in a sentence."""
    return f"the stack has {', '.join(dict.fromkeys(row.name for row in rows))}"


def check_names(rows: Sequence[ProcessRow], names: Sequence[str]) -> None:
    """Refuse a name that no process has.

    Raises:
        NotFound: with the nearest name.
    """
    known = [row.name for row in rows]
    for name in names:
        if name not in known:
            meant = did_you_mean(name, known)
            raise NotFound(f"process {name!r} not found", hint=f"{meant} " * bool(meant) + listed(rows))


def ask(folder: Path, asked: Sequence[tuple[ProcessVerb, Sequence[str]]], *, as_json: bool) -> None:
    """Have the supervisor do this to these processes, one verb after the other, and print what was done.

    Raises:
        Conflict, StartFailed, Unavailable: as `requests.send`.
    """
    from pipeweave.up import requests

    done: dict[str, list[str]] = {verb.done: [] for verb, _ in asked}
    for verb, names in asked:

        def tell(name: str, word: str = verb.done) -> None:
            done[word].append(name)
            if not as_json:
                click.echo(f"{word.capitalize()} {name}")

        if names:
            requests.send(folder, verb, names, tell)
    if as_json:
        show_json(done)
