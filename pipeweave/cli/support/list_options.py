"""Options that all commands share which list pages, and several options as one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

limit_option: Callable[[Any], Any] = click.option(
    "-l",
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Show at most this many.",
)
cursor_option: Callable[[Any], Any] = click.option(
    "--cursor", help="Show the next page; the list before printed it."
)


def options(*each: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: Any) -> Any:
        return functools.reduce(lambda decorated, option: option(decorated), reversed(each), command)

    return decorate
