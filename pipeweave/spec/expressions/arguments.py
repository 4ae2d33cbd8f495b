"""Check the arguments of functions; each check gives the argument back or raises Unfit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.spec.expressions.faults import Unfit
from pipeweave.spec.expressions.values import is_list, is_number, kind_name


def text_of(name: str, value: Any) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise Unfit(
        f"{name} needs a text, not {kind_name(value)}",
        "write text(…) around it" if is_number(value) else None,
    )


def part_of(name: str, value: Any) -> str:
    """A text that is not empty."""
    part = text_of(name, value)
    if not part:
        raise Unfit(f"{name} needs a text that is not empty")
    return part


def list_of(name: str, value: Any) -> Sequence[Any]:
    """A list."""
    if is_list(value):
        return value  # type: ignore[no-any-return]
    raise Unfit(f"{name} needs a list, not {kind_name(value)}")


def object_of(name: str, value: Any) -> Mapping[str, Any]:
    """An object."""
    if isinstance(value, Mapping):
        return value
    raise Unfit(f"{name} needs an object, not {kind_name(value)}")


def number_of(name: str, value: Any) -> int | float:
    """A number."""
    if is_number(value):
        return value  # type: ignore[no-any-return]
    raise Unfit(f"{name} needs a number, not {kind_name(value)}")
