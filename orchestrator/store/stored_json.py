"""Reads a JSON text as PostgreSQL gives it back after it was stored, without asking PostgreSQL.

A `jsonb` column keeps an object's members by the length of their names, and a number by its digits: `1e16`
comes back as a whole number. A function that is called again after a crash must see what it saw before.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson

# From here on a float is written with an exponent.
_WITH_EXPONENT = 1e16
# Whole numbers that are read as such; larger ones are floats.
_LEAST, _MOST = -(2**63), 2**64 - 1


def read_back(text: str) -> Any:
    """The value of a JSON text as a `jsonb` column gives it back."""
    return _as_stored(orjson.loads(text))


def _as_stored(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_stored(value[name]) for name in sorted(value, key=_place)}
    if isinstance(value, list):
        return [_as_stored(each) for each in value]
    return _number(value) if isinstance(value, float) else value


def _place(name: str) -> tuple[int, bytes]:
    encoded = name.encode()
    return len(encoded), encoded


def _number(value: float) -> float | int:
    if abs(value) < _WITH_EXPONENT:
        return value or 0.0  # there is no negative zero
    whole = int(Decimal(repr(value)))
    return whole if _LEAST <= whole <= _MOST else value
