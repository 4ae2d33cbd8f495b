"""The functions of expressions that read times and durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pipeweave.durations import DURATION_EXPECTED, milliseconds
from pipeweave.spec.expressions.arguments import text_of
from pipeweave.spec.expressions.faults import Unfit
from pipeweave.spec.expressions.frame import Frame
from pipeweave.spec.expressions.values import is_number, kind_name

_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def time(frame: Frame, value: Any) -> datetime:
    """The time that a text holds, as RFC 3339 writes it, with its offset."""
    if isinstance(value, datetime):
        return value
    written = text_of("time", value)
    if _RFC3339.fullmatch(written):
        try:
            return datetime.fromisoformat(written.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise Unfit(f"time cannot read {written[:40]!r}", "write it as 2027-03-28T01:00:00Z, with its offset")


def duration(frame: Frame, value: Any) -> timedelta:
    """The duration that a text such as `2h` or a number of seconds stands for."""
    if isinstance(value, timedelta):
        return value
    in_ms = milliseconds(value) if isinstance(value, str) or is_number(value) else None
    if in_ms is None:
        shown = repr(value[:40]) if isinstance(value, str) else kind_name(value)
        raise Unfit(f"duration cannot read {shown}", f"write {DURATION_EXPECTED}")
    return timedelta(milliseconds=in_ms)


def now(frame: Frame) -> datetime:
    """The time of the evaluation."""
    if frame.now is None:
        raise Unfit("now() has no value here")
    return frame.now
