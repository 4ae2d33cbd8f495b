"""Times as the clocks of a zone show them, in fields that people fill in (pure)."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo


def on_clocks(text: str, zone: str) -> str:
    """A time as a field of the kind `moment` shows it, e.g. `2026-11-01T02:30`; what is no time, as it is.

    Args:
        text: RFC 3339, or what such a field sends.
        zone: an IANA name.
    """
    try:
        at = datetime.fromisoformat(text)
        shown = at.astimezone(ZoneInfo(zone)) if at.tzinfo else at
    except (ValueError, OverflowError):
        return text
    exact = "milliseconds" if shown.microsecond else "seconds" if shown.second else "minutes"
    return shown.replace(tzinfo=None).isoformat(timespec=exact)


def from_clocks(text: str, zone: str) -> str:
    """What a field of the kind `moment` sends, as RFC 3339 with the offset of the zone; what has an offset
    already, or is no time, as it is.

    Of an hour that the clocks show twice it is the first one; what they skip counts as if they had not been
    set forward yet.
    """
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return text
        return at.replace(tzinfo=ZoneInfo(zone)).isoformat()
    except (ValueError, OverflowError):
        return text
