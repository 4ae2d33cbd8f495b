"""Lets callers through to a storage backend that is somebody else's server, and lets them wait briefly.

A server that takes a connection and answers nothing, or drips, holds who asks for as long as its client's
library is patient. So each request is made by a thread of its own, and who asks waits PATIENCE_S, longer only
for content that moves. After a failure the backend's circuit breaker refuses callers at once, until a probe
is answered: no second caller waits for a server that does not answer.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from pipeweave.beside import Beside, TooLate
from pipeweave.circuit_breaker import CircuitBreaker
from pipeweave.errors import Unavailable
from pipeweave.storage.seats import Seats

R = TypeVar("R")

# How long (s) a caller waits for an answer.
PATIENCE_S = 2.0
# Content that moves more slowly (bytes per second) does not move.
SLOWEST = 50_000
# A failure within this time (s) is one that nobody waited for.
AT_ONCE_S = 0.2
# Between two looks whether it is time for a probe (s).
LOOK_S = 0.1
# Requests that are late and go on by themselves; with so many of them, nobody is let through.
MOST_LATE = 64


def nothing_moves() -> int:
    """The bytes that have come, for a request without content."""
    return 0


class Gate:
    """The way to one backend.

    Args:
        backend: its id.
        hint: what to check when it is away.
        is_away: whether an error of its client says that the server did not answer, or cannot work. An answer
            that it is full, or asked too much at a time, is an answer.
        probe: makes a small request, to find out whether the server answers again.

    Attributes:
        seats: shared by the backends of a process; None for no limit.
    """

    def __init__(
        self,
        backend: str,
        hint: str,
        is_away: Callable[[Exception], bool],
        probe: Callable[[], object],
    ) -> None:
        self.seats: Seats | None = None
        self._backend = backend
        self._hint = hint
        self._is_away = is_away
        self._breaker = CircuitBreaker(what="storage", names={"backend": backend})
        self._late: list[Beside[Any]] = []
        self._probe = probe
        self._prober: Beside[None] | None = None

    @property
    def is_shut(self) -> bool:
        """Whether a caller would be refused now, because the backend did not answer a moment ago."""
        return self._prober is not None and self._prober.is_under_way

    def ask(self, work: Callable[[], R], *, size: int = 0, moved: Callable[[], int] = nothing_moves) -> R:
        """Make a request, and wait for its answer.

        Args:
            work: makes the request. When it is late, it goes on, and nobody takes its answer.
            size: the bytes that it sends.
            moved: the bytes that have come so far.

        Raises:
            Unavailable: there is no answer in time, or there was none a moment ago, or too many wait.
            Exception: what `work` raises.
        """
        if self.is_shut:
            self._breaker.skip()
            raise self._no_answer("did not answer a moment ago")
        if self.seats is None:
            return self._ask(work, size, moved)
        with self.seats.one():
            return self._ask(work, size, moved)

    def _ask(self, work: Callable[[], R], size: int, moved: Callable[[], int]) -> R:
        if not self._breaker.may_try():
            raise self._no_answer("did not answer a moment ago")
        self._late = [each for each in self._late if each.is_under_way]
        if len(self._late) >= MOST_LATE:
            raise self._no_answer(f"has {MOST_LATE} requests to answer")
        began = time.monotonic()
        request = Beside(work, f"storage {self._backend}")
        try:
            answer = _awaited(request, began + PATIENCE_S + size / SLOWEST, moved)
        except TooLate:
            self._late.append(request)
            reason = f"no answer within {time.monotonic() - began:.1f} s"
            self._shut(reason)
            raise self._no_answer(f"cannot be reached or failed ({reason})") from None
        except Exception as error:
            if self._is_away(error):
                self._shut(type(error).__name__, at_once=time.monotonic() - began < AT_ONCE_S)
            else:
                self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return answer

    def _shut(self, reason: str, *, at_once: bool = False) -> None:
        self._breaker.failed(reason, at_once=at_once)
        if not self.is_shut:
            # It must not keep a backend alive that nobody uses any more.
            mine = weakref.ref(self)
            self._prober = Beside(lambda: _probe_until_it_answers(mine), f"storage probe {self._backend}")

    def answers(self) -> bool:
        """Make a probe, unless the last one was a moment ago; whether the backend answers again."""
        if self._breaker.is_resting:
            return False
        self._late = [each for each in self._late if each.is_under_way]
        if len(self._late) >= MOST_LATE:
            return False
        began = time.monotonic()
        request = Beside(self._probe, f"storage {self._backend}")
        try:
            request.result(PATIENCE_S)
        except TooLate:
            self._late.append(request)
            self._breaker.failed("no answer to a probe")
            return False
        except Exception as error:
            if self._is_away(error):
                at_once = time.monotonic() - began < AT_ONCE_S
                self._breaker.failed(type(error).__name__, at_once=at_once)
                return False
        self._breaker.succeeded()
        return True

    def _no_answer(self, what: str) -> Unavailable:
        return Unavailable(f"storage backend {self._backend!r} {what}", hint=self._hint)


def _probe_until_it_answers(gate: weakref.ref[Gate]) -> None:
    while (live_gate := gate()) is not None and not live_gate.answers():
        del live_gate
        time.sleep(LOOK_S)


def _awaited(request: Beside[R], deadline: float, moved: Callable[[], int]) -> R:
    """Wait for a request until the deadline (s, monotonic clock), and longer while content comes."""
    while True:
        before = moved()
        try:
            return request.result(deadline + before / SLOWEST - time.monotonic())
        except TooLate:
            if moved() == before:
                raise
