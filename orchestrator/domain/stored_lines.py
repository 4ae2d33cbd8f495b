"""What a line of a stored log says of itself, whoever wrote it: its level, and when it was written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

# From the least to the most serious.
LEVELS = ("debug", "info", "warning", "error", "critical")
_OTHER_NAMES = {"warn": "warning", "fatal": "critical"}


def level_of(line: Mapping[str, Any]) -> str:
    """The level of a line, one of LEVELS; one without a known level is `info`."""
    level = str(line.get("level", "")).lower()
    return _OTHER_NAMES.get(level, level if level in LEVELS else "info")


def is_at_least(line: Mapping[str, Any], level: str) -> bool:
    """Whether a line is as serious as a level of LEVELS."""
    return LEVELS.index(level_of(line)) >= LEVELS.index(level)


def moment_of(line: Mapping[str, Any]) -> datetime | None:
    """When a line was written; None if it does not say so."""
    return moment_in(str(line.get("time") or line.get("timestamp")))


def moment_in(text: str) -> datetime | None:
    """The time that a text says; None if it says none. A time without an offset is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
