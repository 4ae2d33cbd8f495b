"""Reads for which versions of Python a bundle is, as `>=3.11,<3.14` (pure)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

RANGE_EXPECTED = "comparisons with commas, such as >=3.11,<3.14"
_PART = re.compile(r"(>=|<=|==|!=|>|<)\s*([0-9]{1,3}(?:\.[0-9]{1,3}){0,2})\Z")
_MOST_PARTS = 10
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def is_range(text: object) -> bool:
    """Whether a text is a range of versions."""
    if not isinstance(text, str):
        return False
    parts = text.split(",")
    return len(parts) <= _MOST_PARTS and all(_PART.match(each.strip()) for each in parts)


def contains(python: str, version: Sequence[int]) -> bool:
    """Whether a version of Python, as `sys.version_info[:3]`, lies in a range.

    A comparison looks at as many numbers as it names: 3.13.2 equals 3.13.
    """
    return all(_holds(each.strip(), version) for each in python.split(","))


def _holds(part: str, version: Sequence[int]) -> bool:
    match = _PART.match(part)
    if match is None:
        return False
    wanted = [int(each) for each in match[2].split(".")]
    return bool(_COMPARISONS[match[1]](list(version)[: len(wanted)], wanted))
