"""Read a duration that a document may give in two ways: as people write it, or exactly, in ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.durations import DURATION_EXPECTED, MAX_MS, milliseconds
from pipeweave.field_errors import FieldErrors


def read_duration(mistakes: FieldErrors, members: Mapping[str, Any], key: str, path: str = "") -> int | None:
    """Read a duration in ms; None if there is none, or a wrong one.

    Users write `timeout`, in seconds or with a unit; a spec holds `timeoutMs`.

    Args:
        mistakes: where mistakes go.
        members: the object that has the keys.
        key: the key without `Ms`.
        path: of the object in the document.
    """
    in_ms = f"{key}Ms"
    prefix = f"{path}." if path else ""
    duration, exact = members.get(key), members.get(in_ms)
    if duration is not None and exact is not None:
        problem = f"cannot be given together with `{key}`: leave one of the two out"
        mistakes.wrong(f"{prefix}{in_ms}", problem, "conflict")
    if duration is not None:
        duration_ms = milliseconds(duration)
        if duration_ms is None:
            problem = f"is {duration!r}: use {DURATION_EXPECTED}"[:500]
            mistakes.wrong(f"{prefix}{key}", problem, "invalid_value", DURATION_EXPECTED)
        return duration_ms
    if exact is None:
        return None
    if isinstance(exact, bool) or not isinstance(exact, int) or not 1 <= exact <= MAX_MS:
        expected = f"a whole number from 1 to {MAX_MS}"
        problem = f"must be {expected}, not {exact!r}"[:500]
        mistakes.wrong(f"{prefix}{in_ms}", problem, "invalid_value", expected)
        return None
    return exact
