"""Reads stored events with care: a history with a corrupt event can still be verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeweave.size_limits import MAX_TASK_RUNS_PER_RUN


class UnreadableEvent(Exception):
    """The data of an event are not what its type promises; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was read.

    Args:
        ordinal: the ordinal of its task run; None without a task run, 0 for a task run of another run.
        at: when it happened; None where nobody asks for it.

    Raises:
        Unreadable: from its methods, when the data are not of the expected type.
    """

    seq: int
    type: str
    ordinal: int | None = None
    attempt: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None

    @property
    def subject(self) -> int:
        """The ordinal of its task run."""
        if not self.ordinal:
            raise UnreadableEvent(
                "it names no task run" if self.ordinal is None else "it names another run's"
            )
        return self.ordinal

    def ordinals(self, name: str = "ordinals") -> Iterator[int]:
        """The ordinals of closed ranges."""
        ranges = self.data.get(name)
        if not isinstance(ranges, list):
            raise UnreadableEvent(f"its data.{name} are not ranges")
        for each in ranges:
            match each:
                case [int(first), int(last)] if 0 < first <= last <= MAX_TASK_RUNS_PER_RUN:
                    yield from range(first, last + 1)
                case [int(only)] if 0 < only <= MAX_TASK_RUNS_PER_RUN:
                    yield only
                case _:
                    raise UnreadableEvent(f"its data.{name} are not ranges")

    def whole(self, name: str, least: int) -> int:
        """A whole number, `least` or more."""
        value = self.data.get(name)
        if not isinstance(value, int) or not least <= value <= MAX_TASK_RUNS_PER_RUN:
            raise UnreadableEvent(f"its data.{name} is not a number of at least {least}")
        return value

    def text(self, name: str) -> str | None:
        """A text, or nothing."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            raise UnreadableEvent(f"its data.{name} is not a text")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts, or nothing."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UnreadableEvent(f"its data.{name} are not texts")
        return tuple(value)
