"""Limits the time of a call, and interrupts a call: both by an exception in its thread.

The exception is raised by an alarm of the operating system (SIGALRM), because nothing else stops a loop that
never waits. A function that holds on to the interpreter itself (a C extension) does not see the alarm; its
process is killed a little later.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from pipeweave.errors import AttemptTimedOut, PipeWeaveError

# A function that was told to stop has this long (s) to clean up before its process is killed.
HARD_AFTER_S = 5.0


class TimeLimit:
    """The alarm of one process, for one call at a time: `with limit.of(seconds, task_run): call()`."""

    def __init__(self) -> None:
        # Only the main thread can be interrupted; in any other thread calls have no limit of their own.
        self._is_main = threading.current_thread() is threading.main_thread()
        self._seconds = 0.0
        self._next: object = None
        # The call that the alarm may stop, and when its time is over (s, monotonic clock).
        self._call: object = None
        self._deadline = 0.0
        # Which call is to be interrupted, and why; written by another thread.
        self._interruption: tuple[object, PipeWeaveError] | None = None
        self._alarm = self._on_alarm
        self.install()

    def install(self) -> None:
        """Take the alarm signal back; called for each message, because functions may have taken it over."""
        # Looking costs 2 µs, too much for each call.
        if self._is_main and signal.getsignal(signal.SIGALRM) != self._alarm:
            signal.signal(signal.SIGALRM, self._alarm)

    def of(self, seconds: float, call: object) -> TimeLimit:
        """Limit the next block to this long (s).

        Args:
            call: the call in the block; only an interruption of the same object stops it.
        """
        self._seconds, self._next = seconds, call
        return self

    def __enter__(self) -> None:
        self._deadline = time.monotonic() + self._seconds
        self._call = self._next
        if self._is_main:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        self._call = None
        if self._is_main:
            signal.setitimer(signal.ITIMER_REAL, 0)

    @property
    def left(self) -> float:
        """How long (s) the last call may still take; more than 0."""
        return max(self._deadline - time.monotonic(), 0.001)

    def is_over(self) -> bool:
        """Whether the call under way has no more time, or was to be interrupted."""
        is_interrupted = self._interruption is not None and self._interruption[0] is self._next
        return is_interrupted or time.monotonic() >= self._deadline

    def interrupt(self, call: object, reason: PipeWeaveError) -> None:
        """Raise `reason` in a call that is under way, from another thread. A call that has returned meanwhile
        is not interrupted, nor is the call after it.
        """
        main = threading.main_thread().ident
        if self._is_main and main is not None:
            self._interruption = call, reason
            signal.pthread_kill(main, signal.SIGALRM)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if self._call is None:
            return
        left = self._deadline - time.monotonic()
        if self._interruption is not None and self._interruption[0] is self._call:
            self._call = None
            raise self._interruption[1]
        if left <= 0:
            self._call = None
            raise AttemptTimedOut.after(self._seconds)
        # The alarm was meant for an earlier call, or came from a timer of the function itself.
        signal.setitimer(signal.ITIMER_REAL, left)
