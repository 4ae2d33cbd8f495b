"""Read durations and times that commands take, such as 12h or 2026-11-20T12:00:00Z."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from pipeweave.durations import milliseconds

_LONGEST_MS = 100_000 * 86_400_000

if TYPE_CHECKING:
    _Lifetime = click.ParamType[timedelta | datetime]
else:
    # Generic from click 8.4 on.
    _Lifetime = click.ParamType


class Lifetime(_Lifetime):
    """A duration such as 12h or 30d, or an ISO time with its time zone."""

    name = "30d|12h|TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | datetime:
        if isinstance(value, timedelta | datetime):
            return value
        text = str(value)
        if (ms := milliseconds(text, longest_ms=_LONGEST_MS)) is not None:
            return timedelta(milliseconds=ms)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r} is neither a duration such as 30s, 5m, 12h or 30d"
                " nor a time such as 2026-11-20T12:00:00Z.",
                param,
                ctx,
            )
        if moment.tzinfo is None:
            self.fail(f"{text!r} lacks a time zone, e.g. {text}Z.", param, ctx)
        return moment


def time_of(time_or_age: timedelta | datetime | None, now: datetime) -> str | None:
    """A time, or one so long ago, as the API takes it."""
    if time_or_age is None:
        return None
    moment = now - time_or_age if isinstance(time_or_age, timedelta) else time_or_age
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
