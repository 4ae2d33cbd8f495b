"""Parse rate limits as users write them: `100/m` is 100 starts a minute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pipeweave.errors import FieldError

RATE_PATTERN: Final = "^[1-9][0-9]{0,6}/[smhd]$"
RATE_EXPECTED: Final = "1 to 9999999 starts per s, m, h or d, as 100/m"

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` starts in `seconds`; `orchestrator/domain/gcra.py` decides when a start is due."""

    limit: int
    seconds: float

    def __str__(self) -> str:
        unit = next((unit for unit, seconds in _SECONDS.items() if seconds == self.seconds), None)
        return f"{self.limit}/{unit or f'{self.seconds:g}s'}"


def is_rate(value: Any) -> bool:
    """True if a value is a rate limit as text."""
    return isinstance(value, str) and re.fullmatch(RATE_PATTERN, value) is not None


def parse_rate(text: str) -> Rate:
    """Parse a rate limit such as `100/m`. The text must have passed `is_rate`."""
    limit, _, unit = text.partition("/")
    return Rate(int(limit), _SECONDS[unit])


def rate_mistakes(value: Any, option: str) -> Iterator[FieldError]:
    """Yield the mistakes of a rate limit option. None means no limit and is valid."""
    if value is not None and not is_rate(value):
        yield FieldError(option, f"is {value!r}: use {RATE_EXPECTED}"[:500], "invalid", RATE_EXPECTED)
