"""Says which names the files of a bundle may have (pure).

A name is a relative path that means the same file on every machine, and never one outside of the folder that
the bundle is unpacked into.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

MAX_NAME_BYTES = 240
"""The length of a file's name with its folders, in UTF-8, at most."""

# Windows reads them as something else than a part of a name.
_REFUSED = frozenset('\\:*?"<>|')


def name_fault(name: str) -> str | None:
    """What is wrong with the name of one file, as the end of a sentence; None if nothing is."""
    if not name or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        return f"has not 1 to {MAX_NAME_BYTES} bytes"
    if any(unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Cn") for each in name):
        return "has characters that cannot be seen"
    if unicodedata.normalize("NFC", name) != name:
        return "is not in the Unicode form NFC"
    if not _REFUSED.isdisjoint(name):
        return f"has one of the characters {''.join(sorted(_REFUSED))}"
    for part in name.split("/"):
        if part in ("", ".", ".."):
            return "is not a path within the bundle"
        if part != part.strip() or part.endswith("."):
            return "has a part that begins or ends with a blank, or ends with a dot"
    return None


def clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Two names that cannot both be files of one folder on every machine; None without any.

    They differ in upper and lower case only, or one is a folder of the other.
    """
    seen: dict[str, str] = {}
    for name in sorted(names):
        folded = name.casefold()
        if folded in seen:
            return seen[folded], name
        seen[folded] = name
    for folded, name in seen.items():
        parts = folded.split("/")
        for length in range(1, len(parts)):
            if (folder := "/".join(parts[:length])) in seen:
                return seen[folder], name
    return None
