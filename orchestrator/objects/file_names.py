"""Makes names of uploaded files safe to be a part of a path, on every backend and every host (pure)."""

from __future__ import annotations

import re

MAX_LETTERS = 100
_NAMELESS = "file"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
# On some hosts these are devices, whatever their ending is.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|\Z)", re.IGNORECASE)


def safe_name(filename: str) -> str:
    """The last part of a file name in the letters A-Z a-z 0-9 . _ -, of 100 letters at most, without a dot in
    front.

    The ending is kept: workers tell the kind of a file by it.
    """
    last = re.split(r"[/\\]", filename)[-1]
    plain = _UNSAFE.sub("_", last).strip("._-")
    if not plain or _DEVICES.match(plain):
        plain = f"{_NAMELESS}_{plain}" if plain else _NAMELESS
    if len(plain) <= MAX_LETTERS:
        return plain
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > 20:
        return plain[:MAX_LETTERS]
    return stem[: MAX_LETTERS - len(ending) - 1] + dot + ending
