"""The commands of one kind of things: a group that lists them by itself, and verbs such as pause."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import list_options
from pipeweave.cli.support.connection import Command, connected, json_option
from pipeweave.cli.support.rendering import show_answer

if TYPE_CHECKING:
    from pipeweave.client import Client, Document


class Resource(click.Group):
    """A group that runs one of its commands if called without a command.

    Args:
        default: that command.
        noun: one of the things, as the client's methods name it: `schedule` of `pause_schedule`.
        find: reads the id that an argument means, e.g. by the beginning of the id.
    """

    def __init__(
        self,
        *args: Any,
        default: str = "list",
        noun: str = "",
        find: Callable[[Client, str], str] = lambda _, argument: argument,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.default = default
        self.noun = noun
        self._find = find

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def verb(
        self,
        name: str,
        help: str,
        line: str | Callable[[Document], str],
        *options: Callable[[Command], Command],
        epilog: str | None = None,
    ) -> None:
        """Add a command that calls the client's method of its name and the noun, with an id and the options.

        Args:
            line: what it prints: `{}` stands for the id, `{member}` for a member of the answer.
        """

        def call(client: Client, argument: str, as_json: bool, **values: Any) -> None:
            id = self._find(client, argument)
            answer = getattr(client, f"{name}_{self.noun}")(id, **values)
            show_answer(answer, as_json, line.format(id, **answer) if isinstance(line, str) else line(answer))

        argument = click.argument("argument", metavar=self.noun.upper())
        self.command(name, help=help, epilog=epilog)(
            list_options.options(argument, *options, json_option, connected)(call)
        )
