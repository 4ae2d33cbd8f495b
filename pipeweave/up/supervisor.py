"""Keep processes running: start them in order, restart dead processes, stop all in reverse order.

All decisions are made in the one thread that calls these methods; other threads and signals post events.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pipeweave.errors import StartFailed, Unavailable
from pipeweave.up.output import Console, Output
from pipeweave.up.process_requests import ProcessRequest
from pipeweave.up.processes import ProcessRow, ProcessSpec
from pipeweave.up.restarts import Restarts
from pipeweave.up.supervised import (
    Event,
    Exited,
    FilesChanged,
    Ready,
    RequestsLeft,
    StopRequested,
    Supervised,
    how_it_ended,
)

# Seconds that a killed process gets to disappear, and that a process gets after a second stop request.
_KILL_WAIT_S = 2.0
_URGENT_GRACE_S = 1.0
_LONGEST_WAIT_S = 3600.0
# How many lines of the log a failure to start repeats.
_TOLD_LINES = 2


class StoppedWhileStarting(Exception):
    """A stop was requested during the start. Internal: `stack.run` catches it."""


class Supervisor:
    """Keeps a set of processes running.

    Args:
        logs: the folder of their logs.
        console: prints their lines, too.
        record: called with the rows of all processes after each change.
    """

    def __init__(self, logs: Path, console: Console, record: Callable[[Sequence[ProcessRow]], None]) -> None:
        self._logs = logs
        self._console = console
        self._record = record
        self._processes: dict[str, Supervised] = {}
        # Unlike Queue, SimpleQueue allows a put in a signal handler that interrupts a `get`.
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._own = Output("up", logs, console)
        self._awaited: set[str] = set()
        self._is_stopping = False
        self._stops_asked = 0
        self._restarts = Restarts(self._processes, self._events.put, self.say, self._add)
        # Called when another process has left requests.
        self.take_requests: Callable[[], Iterable[ProcessRequest]] = tuple
        # How a process of this name is run that the stack does not have yet; None if it can have none.
        self.spec_of: Callable[[str], ProcessSpec | None] = lambda name: None

    def say(self, line: str) -> None:
        """Write a line to the console and the log `up.log`."""
        self._own.write(line, is_timed=True)

    def request_stop(self) -> None:
        """Request a stop of everything; a second request shortens the waits. Safe in signals and threads."""
        self._events.put(StopRequested())

    def look_for_requests(self) -> None:
        """Look whether another process has left requests. Safe in signals and threads."""
        self._events.put(RequestsLeft())

    def files_changed(self, paths: Sequence[str]) -> None:
        """Restart the workers, because files of their apps have changed. Safe in threads."""
        self._events.put(FilesChanged(tuple(paths)))

    def start(self, spec: ProcessSpec) -> None:
        """Start a process and keep it running from now on."""
        self._supervise(spec).start()
        self._write_down()

    def _supervise(self, spec: ProcessSpec) -> Supervised:
        process = Supervised(spec, Output(spec.name, self._logs, self._console), self._events.put)
        self._processes[spec.name] = process
        return process

    def _add(self, name: str) -> Supervised | None:
        spec = self.spec_of(name)
        return None if spec is None else self._supervise(spec)

    def wait_ready(self, names: Iterable[str], deadline_s: float) -> None:
        """Wait until these processes are ready.

        Raises:
            StartFailed: one of them ended by itself.
            Unavailable: they were not ready in time.
            Stopped: a stop was requested.
        """
        self._awaited = set(names)
        deadline = time.monotonic() + deadline_s
        while late := [name for name in self._awaited if self._processes[name].state != "running"]:
            if time.monotonic() >= deadline:
                late_names = ", ".join(sorted(late))
                raise Unavailable(f"not ready after {deadline_s:g} s: {late_names}", hint=f"see {self._logs}")
            self._turn(deadline)
            if self._stops_asked:
                raise StoppedWhileStarting
        self._awaited = set()

    def watch(self) -> None:
        """Restart processes that end, until a stop is requested."""
        while not self._stops_asked:
            self._turn(time.monotonic() + _LONGEST_WAIT_S)

    def stop(self) -> None:
        """Stop all processes, the highest stage first; kill those that do not end in time."""
        self._is_stopping = True
        self._awaited = set()
        self._restarts.give_up()
        everything = [*self._processes.values(), *self._restarts.beside]
        for stage in sorted({each.spec.stage for each in everything}, reverse=True):
            self._stop_all([each for each in everything if each.spec.stage == stage])
        for each in self._processes.values():
            each.close()
        self._own.close()

    def _stop_all(self, processes: list[Supervised]) -> None:
        for each in processes:
            each.ask_to_stop()
        self._write_down()
        begun = time.monotonic()
        while late := [
            each for each in processes if each.pid and time.monotonic() < begun + self._grace(each)
        ]:
            self._turn(min(begun + self._grace(each) for each in late))
        for each in processes:
            if each.pid:
                self.say(f"{each.spec.name} did not stop in time and is killed")
                each.kill()
        deadline = time.monotonic() + _KILL_WAIT_S
        while any(each.pid for each in processes) and time.monotonic() < deadline:
            self._turn(deadline)

    def _grace(self, process: Supervised) -> float:
        is_urgent = self._stops_asked > 1
        return min(process.spec.grace_s, _URGENT_GRACE_S) if is_urgent else process.spec.grace_s

    def _turn(self, until: float) -> None:
        """Handle one event, or what is due; wait until `until` (monotonic) at most."""
        due = [each.restart_at for each in self._processes.values() if each.restart_at is not None]
        timeout = max(min([until, *due, *self._restarts.due()]) - time.monotonic(), 0)
        try:
            self._take(self._events.get(timeout=timeout))
        except queue.Empty:
            self._start_due()
            self._restarts.kill_late()

    def _start_due(self) -> None:
        for each in self._processes.values():
            if each.restart_at is not None and each.restart_at <= time.monotonic():
                each.start()
                self._write_down()

    def _take(self, event: Event) -> None:
        match event:
            case StopRequested():
                self._stops_asked += 1
            case RequestsLeft():
                for request in self.take_requests():
                    self._restarts.ask(request)
                self._write_down()
            case FilesChanged(paths):
                self._restarts.reload(paths)
                self._write_down()
            case Ready(name, pid) if name in self._processes:
                self._ready(self._processes[name], pid)
                if self._restarts.ready(name, pid):
                    self._write_down()
            case Ready():
                pass  # it was removed meanwhile
            case Exited(name, pid, code):
                if self._restarts.exited(name, pid, code):
                    self._write_down()
                elif self._processes[name].pid == pid:
                    self._exited(self._processes[name], code)

    def _ready(self, process: Supervised, pid: int) -> None:
        if process.pid == pid and process.state == "starting":
            process.state = "running"
            self._write_down()

    def _exited(self, process: Supervised, code: int) -> None:
        name, how = process.spec.name, how_it_ended(code)
        gives_up = name in self._awaited and code >= 0
        delay = process.ended(code, will_restart=not (gives_up or self._is_stopping))
        self._write_down()
        if gives_up:
            last_lines = " / ".join(line.strip() for line in process.last_lines(_TOLD_LINES))
            raise StartFailed(
                f"{name} ended with {how} during the start: {last_lines}", hint=f"see {process.output.path}"
            )
        if not self._is_stopping:
            self.say(f"{name} ended with {how}; it is restarted in {delay:g} s")

    def _write_down(self) -> None:
        # Somebody may have deleted the folder: the processes must be stopped nevertheless.
        with suppress(OSError):
            self._record([each.row() for each in [*self._processes.values(), *self._restarts.beside]])
