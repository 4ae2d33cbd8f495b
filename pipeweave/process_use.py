"""Measure what processes use: memory and processor time, from /proc.

Memory is the proportional share (PSS): what forked processes share counts once among them, where the resident
size (RSS) counts it in each. The kernel says the share only to the owner of a process, and to root: elsewhere
the resident size stands in for it, which is larger. Without /proc there is no measurement.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
# More than the files have that say in one line what a process uses.
_STAT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a process has used: memory (bytes), and processor time since it started (s)."""

    rss_bytes: int
    cpu_s: float


def use_of(pid: int) -> ProcessUse | None:
    """What a process uses; None when it is gone, or where there is no /proc."""
    try:
        pages = int(_read(f"/proc/{pid}/statm").split()[1])
        fields = _stat(pid)
    except (OSError, IndexError, ValueError):
        return None
    # utime and stime are the 14th and 15th field, and two stand before the brackets' end.
    return ProcessUse(pages * _PAGE_BYTES, (int(fields[11]) + int(fields[12])) / _TICKS_PER_S)


def share_of(pid: int) -> int | None:
    """The proportional share of memory of a process (bytes); None where the kernel does not say it.

    The kernel walks through the process's pages for it: some 1 ms for 100 MB.
    """
    with suppress(OSError, ValueError, IndexError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return None


def resident_of(pid: int) -> int | None:
    """The resident size of a process (bytes), which is cheap to read; None when it is gone."""
    use = use_of(pid)
    return None if use is None else use.rss_bytes


def memory_of(pid: int) -> int | None:
    """The proportional share of a process, else its resident size (bytes); None when it is gone."""
    if (share := share_of(pid)) is not None:
        return share
    return resident_of(pid)


def families(pids: Collection[int]) -> dict[int, list[int]]:
    """Each of these processes with all that descend from it; empty lists where there is no /proc."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    return {pid: list(_descend(pid, children)) for pid in pids}


def _descend(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    if not (_PROC / str(pid)).exists():
        return
    yield pid
    for child in children.get(pid, ()):
        yield from _descend(child, children)


def _parents() -> Iterator[tuple[int, int]]:
    try:
        names = os.listdir(_PROC)
    except OSError:
        return
    for name in names:
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                yield int(name), int(_stat(int(name))[1])


def _stat(pid: int) -> list[bytes]:
    # The name of the program, in brackets, may have spaces and brackets itself.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    # Without a file object and its decoder: a worker reads two for each of its processes, again and again.
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(opened, _STAT_BYTES)
    finally:
        os.close(opened)
