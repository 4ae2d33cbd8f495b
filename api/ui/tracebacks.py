"""Tells the parts of a traceback apart: frames of the user's own code, frames of libraries, and the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

_FRAME = re.compile(r'(?P<before>\s*File ")(?P<path>[^"]*)(?P<after>", line \d+.*)')
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|python3\.\d+)[/\\]|^<frozen ")
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
# Of a path, so many last parts are shown.
_PARTS = 3


@dataclass(frozen=True, slots=True)
class TracedLine:
    """One line. `kind` is `own`, `library` or `text`; a line that begins a frame has its `path`."""

    text: str
    kind: str
    path: str = ""

    @property
    def short(self) -> str:
        """The line with the end of its path alone."""
        parts = re.split(r"[/\\]", self.path)
        if len(parts) <= _PARTS + 1:
            return self.text
        return self.text.replace(self.path, "…/" + "/".join(parts[-_PARTS:]), 1)


@dataclass(frozen=True, slots=True)
class TracedPart:
    """Lines of one kind that follow each other."""

    kind: str
    lines: Sequence[TracedLine]

    @property
    def of(self) -> str:
        """How many frames of which packages these are: `2 frames of requests, urllib3`."""
        paths = [each.path for each in self.lines if each.path]
        packages = [match[1].removesuffix(".py") for path in paths if (match := _PACKAGE.search(path))]
        names = list(dict.fromkeys(packages)) or ["Python"]
        return f"{len(paths)} frame{'s' if len(paths) != 1 else ''} of {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class Traceback:
    """A traceback: as it is, and in parts."""

    text: str
    parts: Sequence[TracedPart]


def traced(error: Any) -> Traceback | None:
    """The traceback of an error; None without one."""
    text = error.get("traceback") if isinstance(error, dict) else None
    if not isinstance(text, str) or not text.strip():
        return None
    grouped = groupby(_lines(text), key=lambda line: line.kind)
    return Traceback(text, [TracedPart(kind, list(lines)) for kind, lines in grouped])


def _lines(text: str) -> list[TracedLine]:
    lines: list[TracedLine] = []
    kind = "text"
    for line in text.splitlines():
        path = ""
        if frame := _FRAME.match(line):
            path = frame["path"]
            kind = "library" if _LIBRARY.search(path) else "own"
        elif not line.startswith("    "):
            kind = "text"
        lines.append(TracedLine(line, kind, path))
    return lines
