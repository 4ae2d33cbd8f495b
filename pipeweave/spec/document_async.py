"""Read the key `async` of a step: how long the result of a call that suspends itself may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.field_errors import FieldErrors
from pipeweave.option_checks import number_mistakes
from pipeweave.spec.async_defaults import MOST_TRIES, SHORTEST_INTERVAL_MS, AsyncDefaults
from pipeweave.spec.document_durations import read_duration
from pipeweave.spec.document_rules import renamed
from pipeweave.spec.references import json_type

_KEYS = ("timeout", "timeoutMs", "poll")
_POLL_KEYS = ("interval", "intervalMs", "maxAttempts", "timeout", "timeoutMs")
# The same keys as another notation writes them.
_NAMES = {"timeout_ms": "timeoutMs"}
_POLL_NAMES = {**_NAMES, "interval_ms": "intervalMs", "max_attempts": "maxAttempts"}


def read_async(mistakes: FieldErrors, written: Any, path: str) -> AsyncDefaults | None:
    """Read `async`; None if there is none, or a wrong one."""
    if written is None:
        return None
    members = _members(mistakes, written, _NAMES, _KEYS, path)
    poll = _members(mistakes, members.get("poll"), _POLL_NAMES, _POLL_KEYS, f"{path}.poll")
    interval_ms = read_duration(mistakes, poll, "interval", f"{path}.poll")
    if interval_ms is not None and interval_ms < SHORTEST_INTERVAL_MS:
        problem = f"is {interval_ms} ms: a poll asks once a second at most"
        mistakes.wrong(f"{path}.poll.interval", problem, "out_of_range", "1s or longer")
    return AsyncDefaults(
        timeout_ms=read_duration(mistakes, members, "timeout", path),
        interval_ms=interval_ms,
        tries=_tries(mistakes, poll.get("maxAttempts"), f"{path}.poll.maxAttempts"),
        poll_timeout_ms=read_duration(mistakes, poll, "timeout", f"{path}.poll"),
    )


def _members(
    mistakes: FieldErrors, written: Any, names: Mapping[str, str], keys: tuple[str, ...], path: str
) -> Mapping[str, Any]:
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        mistakes.wrong(path, f"must be an object, not {json_type(written)}", "invalid_type", "object")
        return {}
    members = renamed(mistakes, written, names, path)
    mistakes.unknown_keys(members, keys, path)
    return members


def _tries(mistakes: FieldErrors, written: Any, path: str) -> int | None:
    if written is None:
        return None
    wrong = list(number_mistakes(written, "", int, 1, MOST_TRIES))
    for each in wrong:
        mistakes.wrong(path, each.message, each.code, each.expected)
    return None if wrong else int(written)
