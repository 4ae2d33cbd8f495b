"""Defines a month of history: its name, its time span, its ids and its partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidInput

_TEXT = re.compile(r"(19[7-9]\d|2\d{3})-(0[1-9]|1[0-2])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_OF_ID = 80


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month in UTC, `2026-03`."""

    year: int
    number: int

    def __str__(self) -> str:
        return f"{self.year:04}-{self.number:02}"

    @classmethod
    def of(cls, moment: datetime) -> Month:
        """The month of a time."""
        utc = moment.astimezone(UTC)
        return cls(utc.year, utc.month)

    @classmethod
    def of_id(cls, run_id: UUID) -> Month:
        """The month in which an id was made. An id beyond the last month belongs to the last month."""
        stamp = timedelta(milliseconds=run_id.int >> _MS_OF_ID)
        return cls.of(_EPOCH + stamp) if stamp < _SPAN else LAST

    @classmethod
    def parse(cls, text: str) -> Month:
        """The month of `2026-03`.

        Raises:
            InvalidInput: the text is not a month.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            message = f"must be a month such as 2026-03, not {text[:40]!r}"
            raise InvalidInput(
                f"month {message}", errors=[FieldError("month", message, "invalid", "YYYY-MM")]
            )
        return cls(int(match[1]), int(match[2]))

    @property
    def next(self) -> Month:
        """The month after it."""
        return Month(self.year + self.number // 12, self.number % 12 + 1)

    @property
    def start(self) -> datetime:
        """Its first moment."""
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first moment after it."""
        return self.next.start

    @property
    def first_id(self) -> UUID:
        """The lowest id that can be made in the month."""
        return ids.first_id_at(int(self.start.timestamp() * 1000))

    def table(self, parent: str) -> str:
        """The name of its partition of a table."""
        return f"{parent}_{self.year:04}_{self.number:02}"


# Ids have room for 8,000 more years; a clock that shows one of them is wrong.
LAST = Month(2999, 12)
_SPAN = LAST.end - _EPOCH


def ahead(now: datetime, count: int) -> list[Month]:
    """The month of `now` and `count` months after it."""
    months = [Month.of(now)]
    for _ in range(count):
        months.append(months[-1].next)
    return months
