"""Check the formats that input schemas know: e-mail addresses, URLs and dates."""

from __future__ import annotations

import email.utils
import re
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

_LOCAL = re.compile(r"[A-Za-z0-9_'+-]+(\.[A-Za-z0-9_'+-]+)*\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NEEDS_HOST = ("http", "https", "ws", "wss", "ftp")

_ISO = re.compile(
    r"[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?"
    r"([T ](([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?|24:00(:00)?)"
    r"\s*(Z|[+-][0-9]{2}:?[0-9]{2})?)?\Z"
)
_OTHER_DATES = ("%Y/%m/%d", "%m/%d/%Y", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%m/%d/%Y %H:%M:%S")
_NAMED_DATES = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%B %d, %Y %H:%M:%S", "%b %d, %Y %H:%M:%S")


def is_email(text: str) -> bool:
    """True if a text has the form of one plain e-mail address."""
    local, at, domain = text.rpartition("@")
    labels = domain.split(".")
    return (
        bool(at)
        and _LOCAL.match(local) is not None
        and len(labels) > 1
        and all(_LABEL.match(label) for label in labels)
        and len(labels[-1]) > 1
        and labels[-1].isalpha()
    )


def is_url(text: str) -> bool:
    """True if a text is an absolute URL."""
    trimmed = text.strip()
    if not _SCHEME.match(trimmed) or any(letter in trimmed for letter in "\n\t"):
        return False
    try:
        parts = urlsplit(trimmed)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.hostname) if parts.scheme.lower() in _NEEDS_HOST else True


def is_date(value: Any) -> bool:
    """True if JavaScript's Date accepts the value:

    ISO 8601 and common date texts, numbers, booleans, null.
    """
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, (int, float)):
        return abs(value) <= 8.64e15
    if not isinstance(value, str) or len(value) > 100:
        return False
    text = value.strip()
    if _ISO.match(text):
        return True
    return any(_parses(text, form) for form in (*_OTHER_DATES, *_NAMED_DATES)) or _is_mail_date(text)


def _parses(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _is_mail_date(text: str) -> bool:
    try:
        email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return False
    return True


def utf16_length(text: str) -> int:
    """The length of a text as JavaScript counts it: in 16-bit units, not in characters."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
