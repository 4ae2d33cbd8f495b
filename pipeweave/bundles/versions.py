"""Reads the versions of bundles, and says which of two is newer (pure)."""

from __future__ import annotations

import re

VERSION_EXPECTED = "one to four whole numbers with dots, such as 1.4.0"
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){0,3}\Z")


def is_version(text: object) -> bool:
    """Whether a text is the version of a bundle."""
    return isinstance(text, str) and bool(_VERSION.match(text))


def order_of(version: str) -> tuple[int, int, int, int]:
    """What the versions of one bundle are compared by: 1.10 is newer than 1.9, and 1.4 the same as 1.4.0."""
    numbers = [int(each) for each in version.split(".")]
    first, second, third, fourth = [*numbers, 0, 0, 0][:4]
    return first, second, third, fourth
