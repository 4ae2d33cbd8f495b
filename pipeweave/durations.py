"""Parse durations as users write them (90, "30s", "5m", "2h"), and name them for people."""

from __future__ import annotations

import re
from typing import Any, Final

MAX_MS: Final = 366 * 86_400_000
"""The longest duration a user may give, ms."""

DURATION_PATTERN: Final = r"^[0-9]{1,11}(\.[0-9]{1,9})?(ms|s|m|h|d)$"
DURATION_EXPECTED: Final = (
    "seconds, or a number with a unit such as 500ms, 30s, 5m, 2h or 1d, from 1 ms to 366 days"
)

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(value: Any, *, longest_ms: int = MAX_MS) -> int | None:
    """Convert seconds, or a text with a unit, to ms; None if the value is not DURATION_EXPECTED.

    Args:
        longest_ms: the longest duration that is valid, ms.
    """
    if isinstance(value, str):
        return _in_range(_of_text(value), longest_ms)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return _in_range(value * 1_000, longest_ms)


def _of_text(text: str) -> float:
    if not re.fullmatch(DURATION_PATTERN, text):
        return 0
    unit = text.lstrip("0123456789.")
    return float(text.removesuffix(unit)) * _UNITS_MS[unit]


def _in_range(ms: float, longest_ms: int) -> int | None:
    return round(ms) if 1 <= ms <= longest_ms else None


_NAMES: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000))


def in_words(ms: float) -> str:
    """Name a duration for people, by its two largest units: `10 minutes`, `1 hour 30 minutes`, `250 ms`."""
    if ms < 1_000:
        return f"{ms:g} ms"
    left, said = round(ms), []
    for name, size in _NAMES:
        count, left = divmod(left, size)
        if count:
            said.append(f"{count} {name}{'' if count == 1 else 's'}")
    return " ".join(said[:2])
