"""The time limit of a call, and the way to stop one that is not wanted any more: an exception in its thread.

An alarm of the operating system, because a loop that never waits is stopped by nothing else. A function that
holds on to the interpreter itself (a C extension) does not see it; its process is killed a little later.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

from pipeweave.errors import AttemptTimedOut, PipeWeaveError

# A function that was told to stop has this long (s) to clean up before its process is killed.
HARD_AFTER_S = 5.0


class TimeLimit:
    """The alarm clock of one process, for one call at a time: `with limit.of(seconds): call()`."""

    def __init__(self) -> None:
        # Only the main thread can be interrupted; in any other the calls have no limit of their own.
        self._is_main = threading.current_thread() is threading.main_thread()
        self._is_armed = False
        self._seconds = 0.0
        self._reason: PipeWeaveError | None = None
        self._rung = self._ring
        self.listen()

    def listen(self) -> None:
        """Hear the alarm from now on; called for each message, because functions may have taken it over."""
        # To look costs 2 µs, too much for each call.
        if self._is_main and signal.getsignal(signal.SIGALRM) != self._rung:
            signal.signal(signal.SIGALRM, self._rung)

    def of(self, seconds: float) -> TimeLimit:
        """The next block may take this long (s)."""
        self._seconds = seconds
        return self

    def __enter__(self) -> None:
        self._reason = None
        self._is_armed = True
        if self._is_main:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        self._is_armed = False
        if self._is_main:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def interrupt(self, reason: PipeWeaveError) -> None:
        """Raise `reason` in the call that is under way, from another thread."""
        self._reason = reason
        main = threading.main_thread().ident
        if self._is_main and self._is_armed and main is not None:
            signal.pthread_kill(main, signal.SIGALRM)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        # An alarm that comes when the call has just returned stops nothing.
        if self._is_armed:
            self._is_armed = False
            raise self._reason or AttemptTimedOut(f"the attempt took longer than {self._seconds:g} s")
