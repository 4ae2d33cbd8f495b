"""The verbs that a kind of things gets from its name."""

from __future__ import annotations

import click
import pytest

from pipeweave import Client
from pipeweave.cli import COMMANDS, main
from pipeweave.cli.support import resource


def _verbs() -> list[tuple[resource.Resource, str]]:
    groups = (main.get_command(click.Context(main), name) for name in COMMANDS)
    return [
        (group, name)
        for group in groups
        if isinstance(group, resource.Resource)
        for name, command in group.commands.items()
        if command.callback and command.callback.__module__ == resource.__name__
    ]


VERBS = _verbs()


@pytest.mark.parametrize(("group", "verb"), VERBS, ids=[f"{group.noun}-{verb}" for group, verb in VERBS])
def test_the_client_has_the_method_that_a_verb_calls(group: resource.Resource, verb: str) -> None:
    assert callable(getattr(Client, f"{verb}_{group.noun}"))


def test_pausing_is_a_verb_of_schedules_and_of_triggers() -> None:
    assert {"schedule-pause", "trigger-pause"} <= {f"{group.noun}-{verb}" for group, verb in VERBS}
