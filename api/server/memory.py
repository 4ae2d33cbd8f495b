"""Watches the memory of a server process of the API, and has gunicorn replace it gracefully.

gunicorn starts new server processes first, and then lets the old ones finish what is under way: no request is
refused. A process that has not grown since it began is not replaced: another one would be as large.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

from pipeweave import process_use

log = logging.getLogger(__name__)

# How often it looks (s); a look costs some 2 ms.
LOOK_EVERY_S = 15.0
# What has grown: by this share of what it took first, and by at least so many bytes.
GROWN_SHARE, GROWN_BYTES = 0.25, 64_000_000


class ServerMemory:
    """The watch of one server process.

    Args:
        limit_bytes: what the process may take.
        replace: has the process replaced; called once.
        measure: what the process takes (bytes); None if that cannot be measured.
    """

    def __init__(
        self,
        limit_bytes: int,
        replace: Callable[[], None],
        measure: Callable[[], int | None] = lambda: process_use.memory_of(os.getpid()),
    ) -> None:
        self._limit, self._replace, self._measure = limit_bytes, replace, measure
        self._first: int | None = None
        self._was_told = False

    def look(self) -> bool:
        """Look once; False when the process is being replaced, and nothing is left to look at."""
        size = self._measure()
        if size is None:
            return True
        if self._first is None:
            self._first = size
        if size <= self._limit:
            return True
        names = {"pid": os.getpid(), "memory_mb": size // 10**6, "limit_mb": self._limit // 10**6}
        if size - self._first >= max(GROWN_BYTES, self._first * GROWN_SHARE):
            log.warning("api.memory_exceeded", extra=names)
            self._replace()
            return False
        if not self._was_told:
            self._was_told = True
            log.warning("api.memory_cap_low", extra=names)
        return True

    def start(self) -> None:
        """Look again and again, in a thread."""
        threading.Thread(target=self._run, name="memory", daemon=True).start()

    def _run(self) -> None:
        pause = threading.Event()
        while self.look():
            pause.wait(LOOK_EVERY_S)


def watch(limit_bytes: int) -> Callable[[object], None]:
    """What gunicorn calls in each server process when it is ready (`post_worker_init`)."""

    def begin(worker: object) -> None:
        # HUP lets the arbiter start new server processes, and stop the old ones when those are there.
        ServerMemory(limit_bytes, lambda: os.kill(os.getppid(), signal.SIGHUP)).start()

    return begin
