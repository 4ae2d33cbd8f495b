"""Says which values the fields of a cron line may have, and refuses what lies beyond them (pure)."""

from __future__ import annotations

import re

# The fields of a line of six; what each takes, by the name that cronsim gives it.
_RANGES = {
    "second": (0, 59, ""),
    "minute": (0, 59, ""),
    "hour": (0, 23, ""),
    "day-of-month": (1, 31, ", L (the last day) or LW (the last weekday)"),
    "month": (1, 12, " or JAN to DEC"),
    "day-of-week": (0, 7, " or SUN to SAT (0 and 7 are Sunday)"),
}
EXPECTED = {
    name: f"it takes {least} to {most}{more}, *, lists such as 1,5, ranges such as 1-5 and steps such as */5"
    for name, (least, most, more) in _RANGES.items()
}
_STEP = re.compile(r"/(\d+)")


class OutOfRange(ValueError):
    """A step is larger than its field: it would never be taken."""


def check(line: str) -> None:
    """Refuse steps that are larger than their field; one as large as it (`*/60`) takes its first value.

    Args:
        line: five fields, or six with seconds in the first.

    Raises:
        OutOfRange: one is; the text says which.
    """
    fields = line.split()
    for name, field in zip(list(_RANGES)[-len(fields) :], fields, strict=True):
        least, most, _ = _RANGES[name]
        for step in _STEP.findall(field):
            if int(step) > most - least + 1:
                raise OutOfRange(
                    f"its {name} has a step of {step}, which is never taken: it goes from {least} to {most}"
                )
