"""What objects of a user's say of themselves, as text that can be stored; whatever they raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def asked(ask: Callable[[], R], otherwise: R) -> R:
    """What a user's object answers; `otherwise` where it raises."""
    try:
        return ask()
    except BaseException:  # SystemExit in a `__str__` would end the process, and the attempt with it
        return otherwise


def said(show: Callable[[object], str], value: object) -> str:
    """A user's value as text; nothing where it cannot even say what it is."""
    return asked(lambda: printable(show(value)), "")


def printable(text: str) -> str:
    """PostgreSQL keeps no NUL, and JSON no lone surrogate."""
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode()
