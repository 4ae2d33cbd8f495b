"""Write the output of each process to its own rotated log file and to one shared console."""

from __future__ import annotations

import json
import logging
import os
import threading
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

# Each process has ten log files of 10 MB: the current file and nine older files.
FILE_BYTES = 10_000_000
FILES = 10

_NAME_WIDTH = 9


class Console:
    """Prints the lines of all processes with the process's name in front; prints nothing without a stream."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, name: str, line: str) -> None:
        """Write one line. If the console was closed, stop printing, but not the stack."""
        with self._lock:
            if self._stream is None:
                return
            try:
                self._stream.write(f"{name:<{_NAME_WIDTH}} | {line}\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None


def for_owner_alone(path: str | Path, flags: int) -> int:
    """An `opener` of `open`: a file that it makes is its owner's alone. Logs name runs, users and hosts."""
    return os.open(path, flags, 0o600)


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        file = os.fdopen(for_owner_alone(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")
        return TextIOWrapper(file, encoding=self.encoding, errors=self.errors)


class Output:
    """The log of one process."""

    def __init__(self, name: str, folder: Path, console: Console) -> None:
        self.name = name
        self.path = folder / f"{name}.log"
        self._console = console
        self._file = _PrivateFile(
            self.path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8", errors="replace"
        )

    def write(self, line: str, *, is_timed: bool = False) -> None:
        """Add one line; with the time if it is the supervisor's own: other processes write it themselves."""
        self._file.handle(logging.makeLogRecord({"msg": _timed(line) if is_timed else line}))
        self._console.write(self.name, line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _timed(line: str) -> str:
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": time, "level": "info", "logger": "pipeweave.up", "message": line})
