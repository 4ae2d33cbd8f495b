"""`--help` in a terminal of 80 columns: groups, whole sentences, examples."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from pipeweave.cli import COMMANDS, GROUPS, main

WIDTH = 80
# Click leaves so many columns free in a terminal.
FREE = 2


def words() -> Iterator[tuple[str, ...]]:
    """The words that call each command, with () for `pipeweave` itself."""
    yield ()
    for name in COMMANDS:
        yield (name,)
        command = main.get_command(click.Context(main), name)
        if isinstance(command, click.Group):
            yield from ((name, each) for each in command.commands)


def help_of(*names: str) -> str:
    result = CliRunner().invoke(main, [*names, "--help"], terminal_width=WIDTH - FREE)
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("names", list(words()), ids=" ".join)
def test_no_line_of_any_help_is_cut_or_too_wide(names: tuple[str, ...]) -> None:
    lines = help_of(*names).splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []
    # In the usage, `...` says that an argument may be repeated.
    said = re.sub(r"Usage:.*", "", "\n".join(lines))
    assert "..." not in said
    assert "…" not in said


@pytest.mark.parametrize("names", list(words()), ids=" ".join)
def test_every_command_begins_with_a_short_sentence(names: tuple[str, ...]) -> None:
    first = help_of(*names).split("\n\n")[1].strip()
    assert re.match(r"[A-Z][^.]{5,70}\.", first), first


def test_the_commands_are_listed_in_groups() -> None:
    said = help_of()
    titles = re.findall(r"^([A-Z][a-z ]+):$", said, re.MULTILINE)
    assert titles == ["Options", *GROUPS]
    for name in COMMANDS:
        assert re.search(rf"^  {name} +[A-Z]", said, re.MULTILINE), name


@pytest.mark.parametrize("name", ["up", "trigger", "runs", "worker", "pause", "limits"])
def test_what_is_called_with_options_shows_how(name: str) -> None:
    assert f"\n    pipeweave {name} " in help_of(name)
