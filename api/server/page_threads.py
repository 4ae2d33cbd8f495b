"""Threads that answer nothing but reading requests of the dashboard.

However many pages are open and reloaded, requests that run work never wait behind them, and pages take no
more of a process than these threads can. docs/decisions/0055-threads-for-pages.md says why.
"""

from __future__ import annotations

from pipeweave.api.server.request_threads import RequestThreads, Work

THREADS = 2
# Requests that wait for these threads or are with them. What comes beyond that would wait for seconds.
MOST = 100


class PageThreads:
    """The threads, and how many requests they have. All but the work itself is called by the loop."""

    def __init__(self) -> None:
        self._threads = RequestThreads(THREADS, "page")
        self._count = 0

    @property
    def has_room(self) -> bool:
        """Whether one more request may wait."""
        return self._count < MOST

    def submit(self, answer: Work) -> None:
        """Let a thread answer a request; `done` says later that it has."""
        self._count += 1
        self._threads.submit(answer)

    def done(self) -> None:
        """One of the requests is answered."""
        self._count -= 1
