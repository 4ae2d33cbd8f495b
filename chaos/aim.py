"""Find the processes that a fault hits, and hit them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chaos.notes import Reading
from chaos.plan import Fault
from chaos.processes import Process
from chaos.stack import Stack

# A fault waits at most this long (s) for its process to start.
PATIENCE_S = 15.0
# A fault waits at most this long (s) for a busy worker.
BUSY_WITHIN_S = 2.0
SLOW_WITHIN_S = 1.0


class Missed(Exception):
    """The fault found no target."""


@dataclass(slots=True)
class Hit:
    """The effect of a fault, filled while it lasts."""

    pids: list[int] = field(default_factory=list)
    more: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Aim:
    """What faults need to find their targets.

    Args:
        reading: the notes, which name the call under way in each process.
        is_asked: whether a request to the API is open.
    """

    up: Stack
    reading: Reading
    is_asked: Callable[[], bool]

    def family(self, name: str, *, children: int = 0) -> list[int]:
        """A process and its children; waits while the process starts.

        Raises:
            Missed: it did not start.
        """
        until = time.monotonic() + PATIENCE_S
        while len(found := self.up.processes[name].family()) <= children:
            if time.monotonic() > until:
                raise Missed(f"{name} is not there")
            time.sleep(0.05)
        return found

    def busy_worker(self, fault: Fault) -> list[int]:
        """A worker and its children; one child is in a call if there is work, in a slow call if one begins
        soon.
        """
        found = self.family(worker_of(fault), children=1)
        began = time.monotonic()
        while (waited := time.monotonic() - began) < BUSY_WITHIN_S:
            self.reading.catch_up()
            called = [self.reading.open[each].task_id for each in found if each in self.reading.open]
            if "slow" in called or (called and waited > SLOW_WITHIN_S):
                break
            time.sleep(0.002)
        return [each for each in found if self.up.supervisor.owns(each)]

    def wait_for_request(self) -> None:
        """Wait for an open request to the API."""
        until = time.monotonic() + BUSY_WITHIN_S
        while not self.is_asked() and time.monotonic() < until:
            time.sleep(0.001)


def worker_of(fault: Fault) -> str:
    """The name of the worker that a fault hits."""
    return f"worker-{fault.options['worker'] + 1}"


def beat_of(fault: Fault) -> str:
    """The name of the beat that a fault hits."""
    return f"beat-{fault.options['beat'] + 1}"


def one_of(several: list[Any], chance: float) -> Any:
    if not several:
        raise Missed("the worker has no children")
    return several[int(chance * len(several))]


def whole_or_first(family: list[int], fault: Fault) -> list[int]:
    return family if fault.options["whole"] else family[:1]


def freeze(pids: list[int], seconds: float) -> None:
    """Stop processes for so long."""
    send(pids, signal.SIGSTOP)
    time.sleep(seconds)
    send(pids, signal.SIGCONT)


def send(pids: list[int], number: int) -> None:
    """Send a signal to those of these processes that exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def gone(process: Process) -> None:
    """Wait until a process has ended."""
    while process.pid is not None:
        time.sleep(0.01)
