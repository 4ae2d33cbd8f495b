"""Runs a command in a terminal of a given width, as a user sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_terminal(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 80, rows: int = 40
) -> str:
    """What a command prints in a terminal, without colours and cursor movements."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    without = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        argv, cwd=cwd, env={**without, "TERM": "xterm"}, stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    shown = b"".join(_read(outer))
    os.close(outer)
    process.wait(60)
    return _ESCAPES.sub("", shown.decode()).replace("\r\n", "\n")


def _read(terminal: int) -> list[bytes]:
    """Everything up to the end of the command; then Linux answers with an error."""
    parts = []
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:
            return parts
        if not part:
            return parts
        parts.append(part)
