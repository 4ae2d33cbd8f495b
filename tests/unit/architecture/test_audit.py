"""Whatever a person may change is audited, or says why not."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from types import ModuleType

import click
from support.pages import ROOT

from pipeweave.api.http.audited import KINDS, MANY, NOT_AUDITED
from pipeweave.api.routes import ENDPOINTS
from pipeweave.cli import COMMANDS as ALL_COMMANDS
from pipeweave.cli import main
from pipeweave.cli.support import audited
from pipeweave.orchestrator.deployment import audited_objects


def test_every_endpoint_that_writes_is_audited_or_says_why_not() -> None:
    """A new one gets a line in api/http/audited.py."""
    writing = {each.operation_id for each in ENDPOINTS if each.method != "GET"}
    listed = [*KINDS, *MANY, *NOT_AUDITED]
    assert sorted(listed) == sorted(writing), "each of them once"


def test_what_is_audited_needs_a_token() -> None:
    by_id = {each.operation_id: each for each in ENDPOINTS}
    assert not [name for name in {*KINDS, *MANY} if not by_id[name].scopes]


def test_every_audited_kind_is_declared_by_exactly_one_room() -> None:
    declared = [kind for room in audited_objects.ROOMS for kind in room.AUDITED]
    assert sorted(declared) == sorted({*KINDS.values(), *MANY.values(), *audited.COMMANDS.values()})


def test_the_declarations_of_every_room_are_brought_together() -> None:
    files = {path.parent.name for path in (ROOT / "orchestrator").glob("*/audited_objects.py")}
    assert files - {"deployment"} == {room_of(each) for each in audited_objects.ROOMS}


def test_a_room_declares_only_what_is_in_tables_of_its_own() -> None:
    own = tables_of_rooms()
    foreign = {
        f"{room_of(room)}: {kind}: {table}"
        for room in audited_objects.ROOMS
        for kind, each in room.AUDITED.items()
        for table in re.findall(r"\b(?:FROM|JOIN) (\w+)", f"{each.by_name} {each.by_id}")
        if table not in own[room_of(room)]
    }
    assert not foreign


def tables_of_rooms() -> Mapping[str, set[str]]:
    """By room, the tables whose rows its statements write or lock."""
    tables = defaultdict[str, set[str]](set)
    page = (ROOT / "docs/sql/locks-and-indexes.md").read_text()
    for room, effects in re.findall(r"^- `(\w+)\.[^`]+`[^:]*: (.*)$", page, re.MULTILINE):
        for effect in effects.split("; "):
            if effect.startswith(("writes", "locks")):
                tables[room] |= set(re.findall(r"`([a-z_]+)`", effect))
    return tables


def room_of(declarations: ModuleType) -> str:
    return declarations.__name__.split(".")[-2]


def test_every_command_on_the_database_is_audited_or_says_why_not() -> None:
    """A new one gets a line in pipeweave/cli/support/audited.py."""
    found = {name for name, command in commands() if _opens_the_database(command)}
    assert sorted([*audited.COMMANDS, *audited.NOT_AUDITED]) == sorted(found)


def commands() -> list[tuple[str, click.Command]]:
    context, found = click.Context(main), list[tuple[str, click.Command]]()
    for name in ALL_COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += [(f"{name} {each}", inner) for each, inner in command.commands.items()]
        else:
            found.append((name, command))
    return found


def _opens_the_database(command: click.Command) -> bool:
    return any("--database-url" in each.opts for each in command.params)
