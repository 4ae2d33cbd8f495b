"""What processes use: CPU over a while, memory now."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from benchmarks.systems import System

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one system's own processes.

    Args:
        cpu_percent: of one core, of each process with its children.
        largest_pss_mb: proportional share of memory of the largest single process, in MB (10^6 bytes).
        total_pss_mb: of all of them.
    """

    cpu_percent: Mapping[str, float]
    largest_pss_mb: float
    total_pss_mb: float


def idle(systems: Sequence[System], seconds: float) -> dict[str, Usage]:
    """Watch all systems do nothing, at the same time."""
    families = {each.name: {name: _family(pid) for name, pid in each.processes.items()} for each in systems}
    before = {each: _cpu_seconds(families[each]) for each in families}
    began = time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - began
    found = {}
    for each, processes in families.items():
        after = _cpu_seconds(processes)
        percent = {name: 100 * (after[name] - before[each][name]) / took for name in processes}
        sizes = [_pss_mb(process) for family in processes.values() for process in family]
        found[each] = Usage(percent, max(sizes), sum(sizes))
    return found


def _family(process_id: int) -> list[psutil.Process]:
    process = psutil.Process(process_id)
    return [process, *process.children(recursive=True)]


def _cpu_seconds(families: Mapping[str, Sequence[psutil.Process]]) -> dict[str, float]:
    """CPU time so far. The families are those of the beginning: a difference is of the same processes."""
    found = {}
    for name, family in families.items():
        times = [process.cpu_times() for process in family]
        found[name] = sum(each.user + each.system for each in times)
    return found


def _pss_mb(process: psutil.Process) -> float:
    """Linux knows the share; elsewhere all that is resident counts."""
    memory = process.memory_full_info()
    return float(getattr(memory, "pss", memory.rss)) / MB
