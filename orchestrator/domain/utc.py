"""Converts times to UTC, those at the ends of the calendar included."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(moment: datetime) -> datetime:
    """The time in UTC, because PostgreSQL knows no offsets of 16 hours and more.

    A time too near Python's first or last year to be converted keeps its digits.
    """
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)
