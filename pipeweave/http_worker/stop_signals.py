"""Waits for the signals that end a process, and misses none of them.

Python runs the handler of a signal once the main thread goes on. A main thread that waits for an event does
not go on if the signal came just before the wait began, or reached another thread. Python's wakeup descriptor
is written to at once, so the main thread reads that.
"""

from __future__ import annotations

import signal
import socket
from types import TracebackType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Takes TERM and Ctrl-C during the block, which the main thread runs; a second one ends the process."""

    def __init__(self) -> None:
        self._is_heard = False
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def __enter__(self) -> StopSignals:
        self._before = {each: signal.signal(each, self._hear) for each in SIGNALS}
        self._written_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._written_before)
        for each, action in self._before.items():
            signal.signal(each, action)
        self._reader.close()
        self._writer.close()

    def wait(self) -> None:
        """Wait until one of the signals has come."""
        while not self._is_heard:
            self._reader.recv(1)

    def _hear(self, number: int, frame: object) -> None:
        if self._is_heard:
            raise SystemExit(128 + number)
        self._is_heard = True
