"""Options that all commands share which list pages."""

from __future__ import annotations

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
