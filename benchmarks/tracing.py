"""Count what running processes do: system calls, switches, waits for the disk, calls of Python functions.

Noise of the machine moves these hardly. What a machine does not count is None, never 0.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.counters import ByProcess
from benchmarks.usage import family

# strace needs a moment for each thread that it attaches to.
ATTACHED_S = 20.0

_SWITCHES = re.compile(r"ctxt_switches:\t(\d+)")
# A line of `strace -c`: share, seconds, microseconds per call, calls, maybe errors, name.
_CALLS = re.compile(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", re.M)
_SYNCS = ("fsync", "fdatasync")


# Process, by name -> what each of its processes has counted so far, by process id; None where nothing counts.
ById = Mapping[str, Mapping[int, int] | None]


def switches(roots: Mapping[str, int], without: Set[int]) -> ById:
    """Context switches so far of the threads of processes and their children (Linux).

    Args:
        roots: name -> process id.
        without: children that do not count: sessions of others.
    """
    if not Path("/proc/self/task").exists():
        return dict.fromkeys(roots)
    return {name: {each: _switches(each) for each in _ids(root, without)} for name, root in roots.items()}


def since(before: ById, after: ById) -> ByProcess:
    """What was added meanwhile. What a child has counted that has ended is lost, but never taken away."""
    return {name: _added(before[name], counts) for name, counts in after.items()}


def _added(before: Mapping[int, int] | None, after: Mapping[int, int] | None) -> float | None:
    if before is None or after is None:
        return None
    return sum(max(0, count - before.get(each, 0)) for each, count in after.items())


def _switches(process_id: int) -> int:
    found = 0
    for status in Path(f"/proc/{process_id}/task").glob("*/status"):
        # Threads end.
        with suppress(OSError):
            found += sum(map(int, _SWITCHES.findall(status.read_text())))
    return found


def python_calls(roots: Mapping[str, int], folder: Path | None) -> ById:
    """Calls of Python functions so far, of processes that count them into files of this folder."""
    if folder is None:
        return dict.fromkeys(roots)
    return {
        name: {each: _calls(folder / str(each)) for each in _ids(root, set())} for name, root in roots.items()
    }


def _calls(file: Path) -> int:
    return int.from_bytes(file.read_bytes(), "little") if file.exists() else 0


def _ids(root: int, without: Set[int]) -> list[int]:
    return [each.pid for each in family(root) if each.pid not in without]


@dataclass(slots=True)
class Traced:
    """The system calls of processes, by name; None when this machine does not trace, and until the end.

    Args:
        calls: all.
        disk_waits: those that wait until something is on the disk.
    """

    calls: dict[str, float | None]
    disk_waits: dict[str, float | None]


@contextmanager
def system_calls(roots: Mapping[str, int], without: Set[int]) -> Iterator[Traced]:
    """Trace the system calls that processes and their children make in the block (`strace`)."""
    traced = Traced(dict.fromkeys(roots), dict.fromkeys(roots))
    if not _traces():
        yield traced
        return
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, name) for name in roots}
        tracing = {name: _strace(_ids(root, without), files[name]) for name, root in roots.items()}
        for root in roots.values():
            _wait_until_traced(_ids(root, without))
        try:
            yield traced
        finally:
            for name, strace in tracing.items():
                strace.send_signal(signal.SIGINT)
                strace.wait()
                made = counted(files[name].read_text())
                traced.calls[name] = sum(made.values())
                traced.disk_waits[name] = sum(made.get(each, 0) for each in _SYNCS)


def counted(summary: str) -> dict[str, int]:
    """How often each system call was made, by a summary of `strace -c`, which may be empty."""
    return {name: int(calls) for calls, name in _CALLS.findall(summary) if name != "total"}


def _strace(process_ids: list[int], file: Path) -> subprocess.Popen[bytes]:
    traced = [argument for each in process_ids for argument in ("-p", str(each))]
    command = ["strace", "-c", "-f", "-qq", "-o", str(file), *traced]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait_until_traced(process_ids: list[int]) -> None:
    until = time.monotonic() + ATTACHED_S
    while not all(map(_is_traced, process_ids)) and time.monotonic() < until:
        time.sleep(0.05)


def _is_traced(process_id: int) -> bool:
    try:
        return "TracerPid:\t0\n" not in Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return True


@functools.cache
def _traces() -> bool:
    """Whether strace is there and may attach to other processes."""
    if shutil.which("strace") is None:
        return False
    with psutil.Popen(["sleep", "60"]) as sleeping:
        try:
            with tempfile.NamedTemporaryFile() as file:
                strace = _strace([sleeping.pid], Path(file.name))
                until = time.monotonic() + 1
                while not _is_traced(sleeping.pid) and strace.poll() is None and time.monotonic() < until:
                    time.sleep(0.02)
                is_traced = _is_traced(sleeping.pid)
                with suppress(ProcessLookupError):
                    os.kill(strace.pid, signal.SIGINT)
                strace.wait()
        finally:
            sleeping.kill()
    return is_traced
