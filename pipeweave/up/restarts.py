"""Restart, stop and start processes on request, one after another, so that work goes on.

A worker is replaced: its successor starts beside it, and the worker is asked to stop when the successor is
ready. Other processes are stopped and started again. If a successor does not get ready, the old process
stays, and the rest of the request is given up: the next one would fail in the same way.

A process that was stopped on request stays away, also when files change, until it is started or restarted by
its name. One that is removed leaves the stack.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from pipeweave.up.process_requests import ProcessRequest, ProcessVerb
from pipeweave.up.supervised import Event, Supervised, how_it_ended

# Seconds that a successor gets until it is ready.
READY_WITHIN_S = 60.0
# At most so many changed files are named in one line.
_NAMED_FILES = 3


class Restarts:
    """The restarts under way. Only the supervisor's thread calls these methods.

    Args:
        processes: name -> process; a successor takes the place of its predecessor here.
        post: receives the events of successors.
        say: writes a line for people.
        add: adds the process with a name to `processes`, not started; None if the stack can have none.
    """

    def __init__(
        self,
        processes: dict[str, Supervised],
        post: Callable[[Event], None],
        say: Callable[[str], None],
        add: Callable[[str], Supervised | None],
    ) -> None:
        self._processes, self._post, self._say, self._add = processes, post, say, add
        self._waiting: deque[tuple[str, ProcessRequest]] = deque()
        self._current: tuple[str, ProcessRequest] | None = None
        self._successor: Supervised | None = None
        self._leaving: list[Supervised] = []
        # The last request of `reload`.
        self._reload: ProcessRequest | None = None

    @property
    def beside(self) -> list[Supervised]:
        """The processes that run beside those of the stack: a successor, and predecessors that stop."""
        return [*([self._successor] if self._successor else []), *self._leaving]

    def ask(self, request: ProcessRequest) -> None:
        """Do to these processes what is asked, after what was asked for before."""
        for name in request.names:
            self._waiting.append((name, request))
        self._next()

    def reload(self, paths: Sequence[str]) -> None:
        """Restart the workers with the changed files. A successor that still starts is replaced, too, and
        requests that wait for it wait for the new one: it begins later than they asked.
        """
        named = ", ".join(paths[:_NAMED_FILES]) + (", …" if len(paths) > _NAMED_FILES else "")
        self._say(f"{named} changed: the workers restart")
        to_come = {name for name, _ in self._waiting}
        if self._successor is not None:
            to_come.add(self._successor.spec.name)
            self._leave(self._successor)
            self._start_successor(self._successor.spec.name)
        if self._reload is None or not self._has_open(self._reload):
            self._reload = ProcessRequest([])
        for name, each in self._processes.items():
            if each.spec.is_replaceable and each.state != "stopped" and name not in to_come:
                self._waiting.append((name, self._reload))
        self._next()

    def ready(self, name: str, pid: int) -> bool:
        """Handle that a process is ready; True if it was restarted here."""
        if self._current is None or self._current[0] != name:
            return False
        successor = self._successor
        if successor is not None:
            if successor.pid != pid:
                return False
            self._take_over(successor)
        elif self._processes[name].pid != pid:
            return False
        self._end(None)
        return True

    def exited(self, name: str, pid: int | None, code: int) -> bool:
        """Handle that a process ended; True if it was a successor, or was asked to stop here."""
        if gone := next((each for each in self._leaving if (each.spec.name, each.pid) == (name, pid)), None):
            gone.ended(code, will_restart=False)
            self._leaving.remove(gone)
            return True
        successor = self._successor
        if successor is not None and (successor.spec.name, successor.pid) == (name, pid):
            successor.ended(code, will_restart=False)
            how = how_it_ended(code)
            if successor.kill_at is None:  # killed by `kill_late`
                how = successor.last_exit = f"it was not ready within {READY_WITHIN_S:g} s"
            self._failed(successor, how)
            return True
        process = self._processes.get(name)
        if process is None:
            return True  # it was removed
        if self._is_ending(name) and process.pid == pid:
            process.ended(code, will_restart=False)
            self._end_on_request(process)
            return True
        if process.is_to_return and process.pid == pid:
            process.ended(code, will_restart=False)
            process.restarts += 1
            process.start()
            return True
        is_current = self._current is not None and self._current[0] == name and process.pid == pid
        # A worker that ends while its successor starts returns like any other, and is replaced then.
        if is_current and successor is None:
            self._end(how_it_ended(code))
        return False

    def due(self) -> Iterator[float]:
        """The times (monotonic) at which a process that was asked to stop is killed."""
        return (each.kill_at for each in self._limited() if each.kill_at is not None)

    def kill_late(self) -> None:
        """Kill the processes that did not stop in time."""
        for each in self._limited():
            if each.kill_at is not None and each.kill_at <= time.monotonic():
                late = "is not ready" if each is self._successor else "did not stop"
                self._say(f"{each.spec.name} {late} in time and is killed")
                each.kill_at = None
                each.kill()

    def give_up(self) -> None:
        """Forget all requests: the stack stops."""
        for name, request in self._waiting:
            request.answer(name, "the stack stops")
        self._waiting.clear()
        self._give_up_current()
        for each in self._processes.values():
            each.is_to_return = False

    def _next(self) -> None:
        if self._current is None and self._waiting:
            self._current = self._waiting.popleft()
            self._begin(*self._current)

    def _begin(self, name: str, request: ProcessRequest) -> None:
        process = self._processes.get(name)
        if process is None and request.verb is ProcessVerb.START:
            process = self._add(name)
        if process is None:
            self._end("the stack has no such process")
        elif request.verb in (ProcessVerb.STOP, ProcessVerb.REMOVE):
            self._stop(process)
            if process.pid is None:
                self._end_on_request(process)
        elif process.pid is None:
            # It ended, and waits for its restart, or was stopped: now is the time.
            process.start()
        elif request.verb is ProcessVerb.START:
            if process.state == "running":
                self._end(None)
        elif process.spec.is_replaceable:
            self._start_successor(process.spec.name)
        else:
            self._stop(process)
            process.is_to_return = True

    def _is_ending(self, name: str) -> bool:
        """Whether a process is being ended on request, and is not to come back."""
        current = self._current
        return (
            current is not None
            and current[0] == name
            and current[1].verb in (ProcessVerb.STOP, ProcessVerb.REMOVE)
        )

    def _end_on_request(self, process: Supervised) -> None:
        assert self._current
        process.kill_at = None
        if self._current[1].verb is ProcessVerb.REMOVE:
            del self._processes[process.spec.name]
            process.close()
        self._end(None)

    def _has_open(self, request: ProcessRequest) -> bool:
        """Whether a request has processes that were not restarted yet."""
        current = [] if self._current is None else [self._current]
        return any(each is request for _, each in [*current, *self._waiting])

    def _start_successor(self, name: str) -> None:
        process = self._processes[name]
        self._successor = Supervised(process.spec, process.output, self._post)
        self._successor.start()
        self._successor.kill_at = time.monotonic() + READY_WITHIN_S

    def _leave(self, process: Supervised) -> None:
        """Ask a process to stop that runs beside those of the stack from now on."""
        self._stop(process)
        self._leaving.append(process)

    def _take_over(self, successor: Supervised) -> None:
        old = self._processes[successor.spec.name]
        successor.state = "running"
        successor.kill_at = None
        successor.restarts = old.restarts + 1
        self._processes[successor.spec.name] = successor
        self._successor = None
        if old.pid is not None:
            old.last_exit = None
            self._leave(old)

    def _failed(self, successor: Supervised, how: str) -> None:
        assert self._current
        name, request = self._current
        self._successor = None
        self._say(f"{name}: the new process did not start ({how}); the old one keeps running")
        self._processes[name].last_exit = f"still runs the old code; the new process {successor.last_exit}"
        given_up = [each for each, of in self._waiting if of is request]
        self._waiting = deque(each for each in self._waiting if each[1] is not request)
        for each in given_up:
            request.answer(each, f"not restarted, because {name} did not start")
        self._end(successor.last_exit)

    def _give_up_current(self) -> None:
        if self._current is None:
            return
        if self._successor is not None:
            self._leave(self._successor)
            self._successor = None
        self._current[1].answer(self._current[0], "the stack stops")
        self._current = None

    def _end(self, problem: str | None) -> None:
        assert self._current
        name, request = self._current
        self._current = None
        if problem is None:
            self._say(f"{name} was {request.verb.done}")
        request.answer(name, problem)
        self._next()

    def _stop(self, process: Supervised) -> None:
        process.ask_to_stop()
        process.kill_at = time.monotonic() + process.spec.grace_s

    def _limited(self) -> list[Supervised]:
        """The processes with a time limit for their start or their end."""
        return [*self.beside, *self._processes.values()]
