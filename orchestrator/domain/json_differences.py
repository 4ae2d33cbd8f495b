"""Compares two JSON values (pure): what was added, removed and changed, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from pipeweave.json_values import write_json

# A value in a difference is shown whole up to so many characters of JSON.
SHOWN_CHARS = 1_000

Change = Literal["added", "removed", "changed"]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
# What stands for a member that one of the two values does not have.
_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class JsonDifference:
    """One place at which two JSON values differ.

    Args:
        path: as `${…}` has it after the first name: `.lines[3].price`; empty: the whole value.
        before: the value on the left; None where it was added. A long value is the beginning of its JSON.
        after: the value on the right; None where it was removed.
        is_cut: a value was too long to be shown whole.
    """

    path: str
    change: Change
    before: Any
    after: Any
    is_cut: bool


def differences(before: Any, after: Any, most: int) -> tuple[Sequence[JsonDifference], bool]:
    """The first `most` differences of two values, in the order of the left one; and whether these are all.

    Lists are compared place by place, and 1 is the number 1.0.
    """
    changes = list(islice(_differences("", before, after), most + 1))
    return changes[:most], len(changes) <= most


def _differences(path: str, before: Any, after: Any) -> Iterator[JsonDifference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(each for each in after if each not in before)]:
            yield from _differences(path + member(name), before.get(name, _ABSENT), after.get(name, _ABSENT))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from _differences(f"{path}[{index}]", _at(before, index), _at(after, index))
    elif _is_other(before, after):
        yield _difference(path, before, after)


def member(name: str) -> str:
    """The part of a path that names a member of an object."""
    return f".{name}" if _PLAIN_NAME.match(name) else f"[{write_json(name).decode()}]"


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def _is_other(before: Any, after: Any) -> bool:
    # Python says that True is 1.
    return isinstance(before, bool) is not isinstance(after, bool) or bool(before != after)


def _difference(path: str, before: Any, after: Any) -> JsonDifference:
    change: Change = "added" if before is _ABSENT else "removed" if after is _ABSENT else "changed"
    (left, is_left_cut), (right, is_right_cut) = _shown(before), _shown(after)
    return JsonDifference(path, change, left, right, is_left_cut or is_right_cut)


def _shown(value: Any) -> tuple[Any, bool]:
    if value is _ABSENT:
        return None, False
    text = write_json(value).decode()
    return (value, False) if len(text) <= SHOWN_CHARS else (text[:SHOWN_CHARS], True)
