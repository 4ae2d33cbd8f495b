"""Whatever a person may change is audited, or says why not."""

from __future__ import annotations

import click

from pipeweave.api.http.audited import KINDS, MANY, NOT_AUDITED
from pipeweave.api.routes import ENDPOINTS
from pipeweave.cli import COMMANDS as ALL_COMMANDS
from pipeweave.cli import main
from pipeweave.cli.support import audited
from pipeweave.orchestrator.security import audited_objects


def test_every_endpoint_that_writes_is_audited_or_says_why_not() -> None:
    """A new one gets a line in api/http/audited.py."""
    writing = {each.operation_id for each in ENDPOINTS if each.method != "GET"}
    listed = [*KINDS, *MANY, *NOT_AUDITED]
    assert sorted(listed) == sorted(writing), "each of them once"


def test_what_is_audited_needs_a_token_and_has_a_known_kind() -> None:
    by_id = {each.operation_id: each for each in ENDPOINTS}
    assert not [name for name in {*KINDS, *MANY} if not by_id[name].scopes]
    assert {*KINDS.values(), *MANY.values(), *audited.COMMANDS.values()} <= audited_objects.KINDS


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
