"""Read durations: each may be given in two ways, as people write it, or exactly, in ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.durations import DURATION_EXPECTED, MAX_MS, milliseconds
from pipeweave.field_errors import FieldErrors
from pipeweave.json_values import json_type

# Time limits as another notation writes them together, and the keys of those of the pipeline here.
_OF_STEPS = "step_timeout"
_OF_PIPELINE = {"flow_timeout": "timeout", "idle_timeout": "idleTimeout"}
_TIMEOUTS = (_OF_STEPS, *_OF_PIPELINE)


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


def read_timeouts(mistakes: FieldErrors, document: Mapping[str, Any]) -> tuple[Mapping[str, Any], int | None]:
    """Read `timeouts` of a pipeline.

    Args:
        mistakes: where mistakes go.
        document: that of the pipeline.

    Returns:
        The members of the document, with its time limits under their names here; and the time limit of each
        step that has none of its own (ms), None for what its task says.
    """
    if "timeouts" not in document:
        return document, None
    members = {key: value for key, value in document.items() if key != "timeouts"}
    written = document["timeouts"]
    if not isinstance(written, Mapping):
        mistakes.wrong("timeouts", f"must be an object, not {json_type(written)}", "invalid_type", "object")
        return members, None
    mistakes.unknown_keys(written, _TIMEOUTS, "timeouts")
    limits = {key: read_duration(mistakes, written, key, "timeouts") for key in _TIMEOUTS}
    for key, name in _OF_PIPELINE.items():
        if limits[key] is None:
            continue
        if members.get(name) is not None or members.get(f"{name}Ms") is not None:
            problem = f"is the same as `{name}`: leave one of the two out"
            mistakes.wrong(f"timeouts.{key}", problem, "conflict")
        else:
            members[f"{name}Ms"] = limits[key]
    return members, limits[_OF_STEPS]
