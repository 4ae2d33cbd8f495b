"""Values that are nested deeply."""

from __future__ import annotations

from typing import Any


def nested(levels: int, leaf: Any = 1) -> Any:
    """A leaf in so many lists and objects, one in the other."""
    value = leaf
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value
