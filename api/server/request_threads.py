"""Threads that answer requests. The one that became idle last is woken, by a queue of its own.

A pool of Python's makes an object for each result, with a lock and a list of callbacks; here nobody asks for
results.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

log = logging.getLogger(__name__)

Work = Callable[[], object]


class RequestThreads:
    """The threads, which are started when there is work for them.

    Args:
        most: threads at most; what comes beyond waits for one of them.
        name: of the threads.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        # The queues of threads without work, the one that has become idle last at the end.
        self._idle: list[SimpleQueue[Work | None]] = []
        self._waiting: deque[Work] = deque()
        self._count = 0
        self._is_over = False

    @property
    def is_behind(self) -> bool:
        """Whether something waits for a thread."""
        return bool(self._waiting)

    def submit(self, work: Work) -> None:
        """Let a thread do this.

        Raises:
            RuntimeError: `shutdown` was called.
        """
        with self._lock:
            if self._is_over:
                raise RuntimeError("the threads do no further work")
            if not self._idle and self._count >= self._most:
                self._waiting.append(work)
                return
            mine = self._idle.pop() if self._idle else self._started()
        mine.put(work)

    def shutdown(self, wait: bool = False) -> None:
        """End the threads, each when it has done its work and what waits for it. gunicorn waits for none."""
        with self._lock:
            self._is_over = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.put(None)

    def _started(self) -> SimpleQueue[Work | None]:
        self._count += 1
        mine: SimpleQueue[Work | None] = SimpleQueue()
        # A process that ends does not wait for them: gunicorn has done so.
        threading.Thread(
            target=self._work, args=(mine,), name=f"{self._name}-{self._count}", daemon=True
        ).start()
        return mine

    def _work(self, mine: SimpleQueue[Work | None]) -> None:
        work = mine.get()
        while work is not None:
            try:
                work()
            except BaseException:
                # Whatever it is, the thread goes on, as one of Python's own pool does.
                log.exception("thread.failed")
            # What it holds is free while the thread waits.
            del work
            work = self._more(mine) or mine.get()

    def _more(self, mine: SimpleQueue[Work | None]) -> Work | None:
        """What waits for a thread; None: this one is idle, or is told to end."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._is_over:
                mine.put(None)
            else:
                self._idle.append(mine)
        return None
