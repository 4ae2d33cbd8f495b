"""Start, watch, stop and restart one process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pipeweave.errors import PipeWeaveError, StartFailed
from pipeweave.up import log_line
from pipeweave.up.launch import spawn
from pipeweave.up.leftovers import birth, end_group
from pipeweave.up.output import Output
from pipeweave.up.processes import ProcessRow, ProcessSpec, State

# Seconds before a restart, by the number of short lives in a row; the last value also applies to more.
RESTART_DELAYS_S = (0.1, 1.0, 2.0, 4.0)
# A SIGKILL from outside is not the process's fault: it is back within 5 s, including its start.
KILLED_DELAY_S = 1.0
# A process that ran this long resets the count of short lives.
LONG_LIFE_S = 5.0

_READY_POLL_S = 0.05
# Seconds that the last lines of an ended process get to be read: one of its children may keep the pipe open.
_REST_S = 1.0
_LONGEST_LINE = 65_536
TAIL_LINES = 20
_ERROR_OF_A_COMMAND = "pipeweave: "
_NO_PROGRAM = 127


@dataclass(frozen=True, slots=True)
class Ready:
    """The process is ready."""

    name: str
    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended: with an exit code, or by a signal (negative)."""

    name: str
    pid: int | None
    code: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """A signal or a caller asked the supervisor to stop everything."""


@dataclass(frozen=True, slots=True)
class RequestsLeft:
    """A signal told that another process has left requests in the data directory."""


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """Files of the apps have changed."""

    paths: tuple[str, ...]


Event = Ready | Exited | StopRequested | RequestsLeft | FilesChanged


def restart_delay(short_lives: int, code: int) -> float:
    """Seconds to wait before a restart.

    Args:
        short_lives: how many short lives the process had in a row.
        code: the exit code of the last one; negative for a signal.
    """
    delay = RESTART_DELAYS_S[min(short_lives, len(RESTART_DELAYS_S) - 1)]
    return min(delay, KILLED_DELAY_S) if code == -signal.SIGKILL else delay


def how_it_ended(code: int) -> str:
    """An exit code in words, such as `exit code 1` or `signal 9 (SIGKILL)`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


class Supervised:
    """One process and its state. Only the supervisor's thread calls these methods.

    `post` receives events from the threads that wait for the process's readiness and its end.
    """

    def __init__(self, spec: ProcessSpec, output: Output, post: Callable[[Event], None]) -> None:
        self.spec = spec
        self.output = output
        self.state: State = "stopped"
        self.restarts = 0
        self.restart_at: float | None = None
        self.kill_at: float | None = None
        self.is_to_return = False
        self.last_exit: str | None = None
        # The output may be shared with a process that runs beside this one.
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._post = post
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._born: str | None = None
        self._started_at = 0.0
        self._started = 0.0
        self._short_lives = 0

    @property
    def pid(self) -> int | None:
        """The process id; None while the process does not run."""
        return self._process.pid if self._process else None

    def row(self) -> ProcessRow:
        """The current state of the process."""
        is_there = self._process is not None
        return ProcessRow(
            self.spec.name,
            self.state,
            self.pid,
            self._born if is_there else None,
            self._started_at if is_there else None,
            self.restarts,
            self.spec.stage,
            self.spec.stop_signal,
            self.last_exit,
            self.spec.about,
        )

    def start(self) -> None:
        """Start the process. If its program cannot be executed, report an exit at once."""
        self.restart_at = self.kill_at = None
        self.is_to_return = False
        self.state = "starting"
        self._started, self._started_at = time.monotonic(), time.time()
        stdin = subprocess.PIPE if self.spec.is_watching_us else subprocess.DEVNULL
        try:
            process = spawn(self.spec.launch(), subprocess.PIPE, stdin)
        except StartFailed as error:
            self._write(error.detail)
            self._post(Exited(self.spec.name, None, _NO_PROGRAM))
            return
        self._process, self._born = process, birth(process.pid)
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()
        ended = threading.Event()
        threading.Thread(target=self._wait, args=(process, ended), daemon=True).start()
        threading.Thread(target=self._await_readiness, args=(process.pid, ended), daemon=True).start()

    def ended(self, code: int, *, will_restart: bool) -> float:
        """Record the end of the process, kill its children, and return the seconds until it is restarted."""
        if self._process is not None:
            end_group(self._process.pid)
            if self._process.stdin:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()
            self._process = None
        if self.state != "stopping":
            # What a process wrote before somebody killed it is not why.
            words = () if code == -signal.SIGKILL else self.last_words()
            self.last_exit = ": ".join((f"ended with {how_it_ended(code)}", *words))
        if not will_restart:
            self.state = "stopped"
            return 0.0
        lived_long = time.monotonic() - self._started >= LONG_LIFE_S
        delay = restart_delay(0 if lived_long else self._short_lives, code)
        self._short_lives = 0 if lived_long else self._short_lives + 1
        self.restarts += 1
        self.state = "restarting"
        self.restart_at = time.monotonic() + delay
        return delay

    def ask_to_stop(self) -> None:
        """Ask the process to end; it is not restarted."""
        self.restart_at = None
        if self._process is None:
            self.state = "stopped"
            return
        self.state = "stopping"
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.send_signal(self.spec.stop_signal)

    def kill(self) -> None:
        """Kill the process and its children."""
        if self._process is not None:
            end_group(self._process.pid)

    def last_lines(self, count: int) -> list[str]:
        """The last lines that the ended process wrote: its end may be seen before they were read."""
        self._read_rest()
        return list(self._tail)[-count:]

    def last_words(self) -> list[str]:
        """What the ended process wrote last, as one line for people; empty if it wrote nothing."""
        said = [message for line in self.last_lines(TAIL_LINES) if (message := log_line.message_of(line))]
        errors = [line for line in said if line.startswith(_ERROR_OF_A_COMMAND)]
        return (errors or said)[-1:]

    def close(self) -> None:
        """Read the last lines of the process and close its log."""
        self._read_rest()
        self.output.close()

    def _read_rest(self) -> None:
        if self._reader:
            self._reader.join(_REST_S)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        with process.stdout as lines:
            while line := lines.readline(_LONGEST_LINE):
                self._write(line.decode(errors="replace").rstrip("\r\n"))

    def _write(self, line: str) -> None:
        self._tail.append(line)
        self.output.write(line)

    def _wait(self, process: subprocess.Popen[bytes], ended: threading.Event) -> None:
        code = process.wait()
        ended.set()
        self._post(Exited(self.spec.name, process.pid, code))

    def _await_readiness(self, pid: int, ended: threading.Event) -> None:
        while not ended.wait(_READY_POLL_S):
            with contextlib.suppress(PipeWeaveError):
                if self.spec.is_ready() and self.spec.is_pid_ready(pid):
                    self._post(Ready(self.spec.name, pid))
                    return
