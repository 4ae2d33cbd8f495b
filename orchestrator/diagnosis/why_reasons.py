"""The value of a reason why a task run does not run yet, and functions that its texts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipeweave.orchestrator.store.keyset import Document

# Positions in a line are counted up to here.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: a stable `code`, a `text` for people, and the `numbers` that stand in the text."""

    code: str
    text: str
    numbers: Mapping[str, Any]

    def to_json(self) -> Document:
        return {"code": self.code, "text": self.text, **self.numbers}


def reason(code: str, text: str, **numbers: Any) -> Reason:
    """Make a Reason from a code, a text and the numbers in it."""
    return Reason(code, text, numbers)


def seconds(later: datetime, earlier: datetime | None) -> float:
    """Seconds between two times, to a tenth; 0 when there is no earlier time."""
    return 0.0 if earlier is None else round((later - earlier).total_seconds(), 1)


def moment(at: datetime) -> str:
    """A time in a text: `2026-11-20 12:00:05 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def nth(position: int) -> str:
    """A position in a line as text: `number 3`."""
    return f"number {up_to(position)}"


def up_to(number: int) -> str:
    """A count as text; from MOST_COUNTED on, `10,000 or more`."""
    return f"{number:,}" if number < MOST_COUNTED else f"{MOST_COUNTED:,} or more"
