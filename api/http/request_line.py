"""Answers the requests that come over one connection: one after another, in the order in which they came.

So a connection occupies one thread at a time, as one of HTTP does, and whoever sends ahead knows what was
done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pipeweave.api.http.outlet import Outlet

# Requests that wait for the one before them; and bytes of them.
MOST_WAITING = 32
MAX_WAITING_BYTES = 262_144

Answer = Callable[[bytes], bytes]
# Lets a thread call a function.
Submit = Callable[[Callable[[], None]], object]


class RequestLine:
    """The requests of one connection. Thread safe.

    Args:
        answer: answers one; called in a thread. It raises nothing.
        submit: gives the next one to a thread. None: this server has none for it.
        outlet: takes the answers. The next request begins when it has room for one.
    """

    def __init__(self, answer: Answer, submit: Submit | None, outlet: Outlet) -> None:
        self._answer = answer
        self._submit = submit
        self._outlet = outlet
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._is_busy = False
        self._last: Callable[[], None] | None = None

    def add(self, message: bytes) -> bool:
        """Let a request wait for its turn; False: as many wait as may, and it is dropped."""
        with self._lock:
            is_much = sum(map(len, self._waiting)) + len(message) > MAX_WAITING_BYTES
            if self._waiting and (is_much or len(self._waiting) >= MOST_WAITING):
                return False
            self._waiting.append(message)
        self.go_on()
        return True

    def go_on(self) -> None:
        """Begin the next request, if none is under way and there is room for its answer."""
        with self._lock:
            if not self._outlet.is_open or self._last is not None:
                self._waiting.clear()
            if self._is_busy or not self._waiting or not self._outlet.has_room or self._submit is None:
                return
            message = self._waiting.popleft()
            self._is_busy = True
        self._submit(lambda: self._serve(message))

    def stop(self, last: Callable[[], None]) -> None:
        """Begin no request any more, and do this as soon as the one under way is answered."""
        with self._lock:
            if self._last is not None:
                return
            self._last = last
            self._waiting.clear()
            if self._is_busy:
                return
        last()

    def _serve(self, message: bytes) -> None:
        self._outlet.put(self._answer(message), is_asked_for=True)
        with self._lock:
            self._is_busy = False
            last = self._last
        if last is not None:
            last()
        else:
            self.go_on()
