"""Run the processes of the stack under test; restart a process that ends, as any supervisor would."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil

from pipeweave.errors import PipeWeaveError
from pipeweave.up.launch import Launch, spawn

# A variable that all processes of a stack inherit, because ids of dead processes are soon reused.
MARK = "CHAOS_STACK"
LOOK_EVERY_S = 0.05
# The pause (s) before a process that ended is started again.
PAUSE_S = 0.3
STOP_S = 10.0


class Process:
    """One process, and its successors after each restart.

    Args:
        name: the name in logs.
        launch: gives the command of the next start.
        log: the file for the output of all of them.
        stop_signal: the signal of an orderly end.
    """

    def __init__(
        self, name: str, launch: Callable[[], Launch], log: Path, stop_signal: int = signal.SIGTERM
    ) -> None:
        self.name = name
        self.starts = 0
        self._launch = launch
        self._log = log
        self._stop_signal = stop_signal
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = 0.0
        self._is_down = False

    def look(self) -> None:
        """Start the process if it is down and its pause is over."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._process, self._start_at = None, time.monotonic() + PAUSE_S
            if self._process is None and not self._is_down and time.monotonic() >= self._start_at:
                self._start()

    def _start(self) -> None:
        with self._log.open("ab") as output, suppress(PipeWeaveError):
            launch = self._launch()
            marked = replace(launch, environment={**launch.environment, MARK: str(self._log.parent)})
            self._process = spawn(marked, output)
            self.starts += 1

    @property
    def pid(self) -> int | None:
        """The process id; None while the process is down."""
        with self._lock:
            alive = self._process is not None and self._process.poll() is None
            return self._process.pid if alive and self._process else None

    def family(self) -> list[int]:
        """The process and its children."""
        try:
            parent = psutil.Process(self.pid or -1)
            return [parent.pid, *(each.pid for each in parent.children(recursive=True))]
        except (psutil.Error, ValueError):
            return []

    @contextmanager
    def down(self) -> Iterator[None]:
        """Keep the process down until the block ends."""
        self.hold_down()
        try:
            yield
        finally:
            self.release()

    def hold_down(self) -> None:
        """Start the process no more until `release`."""
        with self._lock:
            self._is_down = True

    def release(self) -> None:
        """Start the process again if it is down."""
        with self._lock:
            self._is_down, self._start_at = False, 0.0

    def stop(self) -> None:
        """End the process, with SIGKILL to its whole session if it does not obey."""
        with self._lock:
            self._is_down = True
            process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(self._stop_signal)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            # Not waited for yet, so that the number is still its own.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Supervisor:
    """Keeps processes running, from a thread of its own.

    Args:
        logs: the folder of the logs; each stack has its own.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._processes: list[Process] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def keep(self, process: Process) -> Process:
        """Start a process, and restart it whenever it ends."""
        self._processes.append(process)
        return process

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Start nothing more; the processes stay as they are."""
        self._end.set()
        self._thread.join()

    def stop_all(self) -> None:
        """End every process, the last one first, and the children that survived theirs."""
        self.stop()
        for each in reversed(self._processes):
            each.stop()
        for pid in filter(self.owns, psutil.pids()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def owns(self, pid: int) -> bool:
        """Whether a process is one of these processes or a descendant of one."""
        try:
            return psutil.Process(pid).environ().get(MARK) == str(self._logs)
        except (psutil.Error, OSError):
            return False

    def _run(self) -> None:
        while not self._end.wait(LOOK_EVERY_S):
            for each in list(self._processes):
                each.look()
