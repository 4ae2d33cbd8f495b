"""docs/cli.md says every command and option, and no page invents one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from support.pages import ROOT, section

from pipeweave.cli import COMMANDS, main


def _commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and the commands of every group, with the words that call them."""
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())


COMMAND_LINE = list(_commands())
WIDTH = 80
# Of click itself, of celery and of docker compose.
OF_OTHERS = {"--help", "--app", "--build", "--wait", "--scale"}


@pytest.mark.parametrize(("name", "command"), COMMAND_LINE, ids=[name for name, _ in COMMAND_LINE])
def test_every_command_is_documented_with_all_its_options(name: str, command: click.Command) -> None:
    own = section("docs/cli.md", rf"`pipeweave {name}(?: [A-Z_]+)*`")
    shared = section("docs/cli.md", "Where a command goes")
    options = [option for each in command.params if isinstance(each, click.Option) for option in each.opts]
    documented = own + shared + "`--json`"
    assert not [option for option in options if f"`{option}`" not in documented]


@pytest.mark.parametrize(("name", "command"), COMMAND_LINE, ids=[name for name, _ in COMMAND_LINE])
def test_the_page_says_what_the_help_says(name: str, command: click.Command) -> None:
    own = " ".join(section("docs/cli.md", rf"`pipeweave {name}(?: [A-Z_]+)*`").split())
    summary = command.get_short_help_str(limit=WIDTH)
    assert summary.rstrip(".") in own


def test_no_option_in_the_documents_is_invented() -> None:
    known = {
        option
        for _, command in COMMAND_LINE
        for each in command.params
        for option in (*each.opts, *each.secondary_opts)
    }
    for name in ("README.md", "docs/cli.md", "docs/operations.md", "examples/README.md"):
        lines = [
            line
            for line in (ROOT / name).read_text().splitlines()
            if "pipeweave " in line or line.startswith("| `-")
        ]
        shown = {option for line in lines for option in re.findall(r"(?<![\w-])--[a-z-]+", line)}
        assert shown <= known | OF_OTHERS, name
