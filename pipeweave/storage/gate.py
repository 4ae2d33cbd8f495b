"""Lets callers through to a storage backend that is somebody else's server, and lets them wait briefly.

A server that takes a connection and answers nothing, or drips, holds who asks for as long as its client's
library is patient. So each request is made by a thread of its own, and who asks waits PATIENCE_S, longer only
for content that moves. After a failure the backend's circuit breaker refuses callers at once.
"""

from __future__ import annotations

import time
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

    Attributes:
        seats: shared by the backends of a process; None for no limit.
    """

    def __init__(self, backend: str, hint: str, is_away: Callable[[Exception], bool]) -> None:
        self.seats: Seats | None = None
        self._backend = backend
        self._hint = hint
        self._is_away = is_away
        self._breaker = CircuitBreaker(what="storage", names={"backend": backend})
        self._late: list[Beside[Any]] = []

    @property
    def is_shut(self) -> bool:
        """Whether a caller would be refused now, because the backend did not answer a moment ago."""
        return self._breaker.is_resting

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
            # Counted as skipped.
            self._breaker.may_try()
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
            self._breaker.failed(reason)
            raise self._no_answer(f"cannot be reached or failed ({reason})") from None
        except Exception as error:
            if self._is_away(error):
                is_at_once = time.monotonic() - began < AT_ONCE_S
                self._breaker.failed(type(error).__name__, at_once=is_at_once)
            else:
                self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return answer

    def _no_answer(self, what: str) -> Unavailable:
        return Unavailable(f"storage backend {self._backend!r} {what}", hint=self._hint)


def _awaited(request: Beside[R], deadline: float, moved: Callable[[], int]) -> R:
    """Wait for a request until the deadline (s, monotonic clock), and longer while content comes."""
    while True:
        before = moved()
        try:
            return request.result(deadline + before / SLOWEST - time.monotonic())
        except TooLate:
            if moved() == before:
                raise
