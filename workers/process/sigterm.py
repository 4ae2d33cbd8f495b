"""Defers SIGTERM in child processes until their message is done.

systemd and shells send TERM to all processes of a worker at once. The pool would raise an exception in
the running function, and fail a task run that is still within its grace period. So a child that works off a
message leaves TERM to its parent, and obeys when the message is done.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


class DeferredSigterm:
    """Handles SIGTERM in one child process.

    Args:
        is_busy: whether it works off a message.
    """

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._is_due = False
        self._pid = os.getpid()
        self._heard = self._hear
        self._before: Callable[[int, FrameType | None], object] | int | None = None

    def watch(self) -> None:
        """Install the signal handler. Called for each message, because the pool installs its own once it has
        made the process, and functions may install theirs.
        """
        before = signal.getsignal(signal.SIGTERM)
        if before != self._heard:
            self._before = before if self._before is None else self._before
            signal.signal(signal.SIGTERM, self._heard)

    def obey(self) -> None:
        """Obey a TERM that came during a message, once the message is done; from any thread."""
        main = threading.main_thread().ident
        if self._is_due and main is not None and not self._is_busy():
            self._is_due = False
            # To the thread that waits for messages: a signal to another thread would not wake it up.
            signal.pthread_kill(main, signal.SIGTERM)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        is_forked = os.getpid() != self._pid  # by a function: such a process gets no time to end
        if self._is_busy() and not is_forked:
            self._is_due = True
            return
        signal.signal(number, signal.SIG_DFL if is_forked else self._before)
        signal.raise_signal(number)
