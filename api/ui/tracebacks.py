"""Tells the lines of a traceback apart: frames of the user's own code, frames of libraries, and the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_FRAME = re.compile(r'\s*File "(?P<path>[^"]*)", line \d+')
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|python3\.\d+)[/\\]|^<frozen ")


@dataclass(frozen=True, slots=True)
class TracedLine:
    """One line. `kind` is `own`, `library` or `text`."""

    text: str
    kind: str


def traced(error: Any) -> list[TracedLine]:
    """The lines of an error's traceback; none without one."""
    text = error.get("traceback") if isinstance(error, dict) else None
    if not isinstance(text, str):
        return []
    lines: list[TracedLine] = []
    kind = "text"
    for line in text.splitlines():
        if frame := _FRAME.match(line):
            kind = "library" if _LIBRARY.search(frame["path"]) else "own"
        elif not line.startswith("    "):
            kind = "text"
        lines.append(TracedLine(line, kind))
    return lines
