"""A group of commands that lists when it is called without a command."""

from __future__ import annotations

from typing import Any

import click


class Listing(click.Group):
    """A group that runs one of its commands if called without a command.

    Args:
        default: that command.
    """

    def __init__(self, *args: Any, default: str = "list", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)
