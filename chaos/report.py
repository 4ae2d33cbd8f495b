"""Write the report of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# At most this many contradictions of a proof are printed; all of them are in the folder.
SHOWN = 10


def lines(figures: Mapping[str, Any], contradictions: Mapping[str, list[str]]) -> list[str]:
    """The report as text, for people."""
    shown = ["", *(f"{name}: {_values(value)}" for name, value in figures.items()), ""]
    for proof, found in contradictions.items():
        shown.append(f"{'holds' if not found else 'FAILS'}  {proof}")
        shown += [f"       {each}" for each in found[:SHOWN]]
        if len(found) > SHOWN:
            shown.append(f"       and {len(found) - SHOWN} more")
    return shown


def _values(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inner(each)}" for name, each in value.items()) or "none"
    return str(value)


def _inner(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name} {_inner(each)}" for name, each in value.items()) + ")"
    return str(value)
