"""Measure what processes use: CPU time over an interval, and current memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from benchmarks.systems import System

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of one system use.

    Args:
        cpu_percent: CPU of each process with its children, in percent of one core.
        largest_pss_mb: proportional share of memory of the largest single process, in MB (10^6 bytes).
        total_pss_mb: the same of all processes.
        pss_mb: the same of the largest process of each family, by name.
    """

    cpu_percent: Mapping[str, float]
    largest_pss_mb: float
    total_pss_mb: float
    pss_mb: Mapping[str, float]


def idle(systems: Sequence[System], seconds: float) -> dict[str, Usage]:
    """Watch all systems do nothing, at the same time."""
    families = {each.name: {name: family(pid) for name, pid in each.processes.items()} for each in systems}
    before = {each: _cpu_seconds(families[each]) for each in families}
    began = time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - began
    found = {}
    for each, processes in families.items():
        after = _cpu_seconds(processes)
        percent = {name: 100 * (after[name] - before[each][name]) / took for name in processes}
        sizes = {name: [_pss_mb(process) for process in family] for name, family in processes.items()}
        largest = {name: max(seen) for name, seen in sizes.items()}
        found[each] = Usage(percent, max(largest.values()), sum(map(sum, sizes.values())), largest)
    return found


def cpu_seconds(process_id: int) -> float:
    """CPU time so far of a process and its children."""
    return _cpu_seconds({"": family(process_id)})[""]


@contextmanager
def largest_during(system: System, every_s: float = 0.05) -> Iterator[dict[str, float]]:
    """Watch a system's memory while the block works: the largest PSS seen of a process, in MB, by name."""
    seen = dict.fromkeys(system.processes, 0.0)
    is_over = threading.Event()

    def watch() -> None:
        while True:
            for name, pid in system.processes.items():
                seen[name] = max(seen[name], _largest_pss_mb(pid))
            if is_over.wait(every_s):
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        is_over.set()
        watching.join()


def family(process_id: int) -> list[psutil.Process]:
    """A process and all its children."""
    process = psutil.Process(process_id)
    return [process, *process.children(recursive=True)]


def total_pss_mb(process_id: int) -> float:
    """The memory of a process and its children together, in MB."""
    return sum(map(_pss_mb, family(process_id)))


def _largest_pss_mb(process_id: int) -> float:
    """Of a process and its children that still run."""
    largest = 0.0
    for process in family(process_id):
        # Pools replace their children.
        with suppress(psutil.NoSuchProcess):
            largest = max(largest, _pss_mb(process))
    return largest


def _cpu_seconds(families: Mapping[str, Sequence[psutil.Process]]) -> dict[str, float]:
    """CPU time so far. The families are those of the beginning: a difference is of the same processes."""
    found = {}
    for name, family in families.items():
        times = [process.cpu_times() for process in family]
        found[name] = sum(each.user + each.system for each in times)
    return found


def _pss_mb(process: psutil.Process) -> float:
    """The proportional share on Linux, elsewhere the resident memory."""
    memory = process.memory_full_info()
    return float(getattr(memory, "pss", memory.rss)) / MB
