"""A stored event, read with care: verifying a history must not break on an event that says nonsense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeweave.size_limits import MAX_TASK_RUNS_PER_RUN


class Unreadable(Exception):
    """The data of an event are not what its type promises; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was read.

    Args:
        ordinal: of the task run it is about; None without one, 0 for one of another run.

    Raises:
        Unreadable: from its methods, when the data are something else.
    """

    seq: int
    type: str
    ordinal: int | None = None
    attempt: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> int:
        """The ordinal of the one task run it is about."""
        if not self.ordinal:
            raise Unreadable("it names no task run" if self.ordinal is None else "it names another run's")
        return self.ordinal

    def ordinals(self, name: str = "ordinals") -> Iterator[int]:
        """The ordinals of closed ranges."""
        ranges = self.data.get(name)
        if not isinstance(ranges, list):
            raise Unreadable(f"its data.{name} are not ranges")
        for each in ranges:
            match each:
                case [int(first), int(last)] if 0 < first <= last <= MAX_TASK_RUNS_PER_RUN:
                    yield from range(first, last + 1)
                case [int(only)] if 0 < only <= MAX_TASK_RUNS_PER_RUN:
                    yield only
                case _:
                    raise Unreadable(f"its data.{name} are not ranges")

    def whole(self, name: str, least: int) -> int:
        """A whole number, `least` or more."""
        value = self.data.get(name)
        if not isinstance(value, int) or not least <= value <= MAX_TASK_RUNS_PER_RUN:
            raise Unreadable(f"its data.{name} is not a number of at least {least}")
        return value

    def text(self, name: str) -> str | None:
        """A text, or nothing."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            raise Unreadable(f"its data.{name} is not a text")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts, or nothing."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Unreadable(f"its data.{name} are not texts")
        return tuple(value)
