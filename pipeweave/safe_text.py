"""Turn users' objects into text that PostgreSQL and JSON can store, even if their methods raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def call_safely(call: Callable[[], R], default: R) -> R:
    """Call a user's code and return its result; return `default` if it raises anything."""
    try:
        return call()
    except BaseException:  # SystemExit in a `__str__` would end the process, and the attempt with it
        return default


def safe_text(show: Callable[[object], str], value: object) -> str:
    """Convert a user's value to storable text with `show` (`str` or `repr`); empty if `show` raises."""
    return call_safely(lambda: storable(show(value)), "")


def storable(text: str) -> str:
    """Replace NUL, which PostgreSQL cannot store, and lone surrogates, which JSON cannot hold."""
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode()


def one_line(text: str) -> str:
    """Write a text in one line; letters that a terminal might obey, or that turn it around, become `?`."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(each if each.isprintable() else "?" for each in line)
