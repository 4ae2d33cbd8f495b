"""Read the log files of a stack as one log, sorted by time."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from pathlib import Path

from pipeweave.up.log_line import ProcessLogLine, parse
from pipeweave.up.output import FILES

# Bytes that are read for each line that is wanted, and at least, from the end of a file.
_BYTES_PER_LINE, _LEAST_BYTES = 2_000, 65_536
_POLL_S = 0.2
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

Matches = Callable[[ProcessLogLine], bool]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of the log of one process. `time` is that of the line before it if the line has none."""

    process: str
    time: datetime
    line: ProcessLogLine


def names(logs: Path) -> list[str]:
    """The processes that have a log."""
    return sorted(each.stem for each in logs.glob("*.log"))


def last(logs: Path, processes: Iterable[str], count: int) -> list[LogEntry]:
    """The last lines of these processes together, oldest first."""
    size = max(_LEAST_BYTES, count * _BYTES_PER_LINE)
    streams = (_entries(each, _tail(logs / f"{each}.log", size)) for each in processes)
    return _newest(merge(*streams, key=_when), count)


def matching(logs: Path, processes: Iterable[str], text: str, matches: Matches, count: int) -> list[LogEntry]:
    """The last lines that match, oldest first; older log files are read, too.

    Args:
        text: what a line that matches contains; other lines are not looked at.
        matches: whether a line belongs to the answer.
    """
    wanted = text.encode()
    streams = []
    for name in processes:
        files = [logs / f"{name}.log{f'.{number}' if number else ''}" for number in reversed(range(FILES))]
        lines = (line for file in files for line in _lines(file) if wanted in line)
        streams.append(entry for entry in _entries(name, lines) if matches(entry.line))
    return _newest(merge(*streams, key=_when), count)


def follow(logs: Path, processes: Sequence[str]) -> Iterator[LogEntry]:
    """The lines that are written from now on, for ever; sorted within a look."""
    ends = {name: _End(logs / f"{name}.log", name) for name in processes}
    while True:
        yield from sorted((entry for end in ends.values() for entry in end.fresh()), key=_when)
        time.sleep(_POLL_S)


class _End:
    """The end of one file, which may be replaced by a new one when it is full."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._inode, self._read_to = _stat(path)
        self._begun = b""

    def fresh(self) -> Iterator[LogEntry]:
        """What was written since the last look, in whole lines."""
        inode, size = _stat(self._path)
        if inode != self._inode or size < self._read_to:
            self._inode, self._read_to, self._begun = inode, 0, b""
        if size == self._read_to:
            return
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            content = self._begun + file.read()
            self._read_to = file.tell()
        *lines, self._begun = content.split(b"\n")
        yield from _entries(self._name, lines)


def _newest(entries: Iterable[LogEntry], count: int) -> list[LogEntry]:
    return list(deque(entries, maxlen=count))


def _entries(name: str, lines: Iterable[bytes]) -> Iterator[LogEntry]:
    when = _LONG_AGO
    for each in lines:
        text = each.decode(errors="replace").rstrip("\r\n")
        if not text.strip():
            continue
        line = parse(text)
        when = max(when, line.time) if line.time else when
        yield LogEntry(name, when, line)


def _tail(path: Path, size: int) -> list[bytes]:
    """The whole lines in the last bytes of a file."""
    try:
        with path.open("rb") as file:
            begin = max(file.seek(0, os.SEEK_END) - size, 0)
            file.seek(begin)
            lines = file.read().splitlines()
    except OSError:
        return []
    return lines[1:] if begin else lines


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError:
        return


def _stat(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_size


def _when(entry: LogEntry) -> datetime:
    return entry.time
