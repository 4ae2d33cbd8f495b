"""Threads that answer nothing but reading requests of the dashboard.

However many pages are open and reloaded, requests that run work never wait behind them, and pages take no
more of a process than these threads can. docs/decisions/0055-threads-for-pages.md says why.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

THREADS = 2
# Requests that wait for these threads or are with them. What comes beyond that would wait for seconds.
MOST = 100


class PageThreads:
    """The threads, and how many requests they have. All but the work itself is called by the loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "page")
        self._count = 0

    @property
    def has_room(self) -> bool:
        """Whether one more request may wait."""
        return self._count < MOST

    def submit(self, answer: Any, *arguments: Any) -> Future[Any]:
        """Let a thread answer a request; `done` says later that it has."""
        self._count += 1
        return self._threads.submit(answer, *arguments)

    def done(self) -> None:
        """One of the requests is answered."""
        self._count -= 1
