"""Reasons why a task run does not run yet: the value, and words that all of them use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.orchestrator.store.keyset import Document

# Counting those before one ends here.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Reason:
    """Something that has to happen, or happened: `code` is stable, `numbers` are what `text` says."""

    code: str
    text: str
    numbers: Mapping[str, Any]

    def to_json(self) -> Document:
        return {"code": self.code, "text": self.text, **self.numbers}


def reason(code: str, text: str, **numbers: Any) -> Reason:
    return Reason(code, text, numbers)


def seconds(later: datetime, earlier: datetime | None) -> float:
    return 0.0 if earlier is None else round((later - earlier).total_seconds(), 1)


def nth(position: int) -> str:
    return f"number {up_to(position)}"


def up_to(number: int) -> str:
    return f"{number:,}" if number < MOST_COUNTED else f"{MOST_COUNTED:,} or more"
