"""What waits to be sent to one watcher: one thread has the changes, and the server's loop sends them.

It is bounded. A watcher that does not take what is sent loses what waits, is told so, and goes on from the
cursor of the last change that it got.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

# What may wait: parts, and bytes.
MAX_PARTS = 1_000
MAX_BYTES = 1_000_000
# Seconds after which a server without a loop of its own looks whether its client is still there.
LOOK_S = 1.0


class Outlet:
    """The parts that wait for one watcher. Thread safe.

    Args:
        receive: takes what the watcher sends; returns what to answer, and whether that ends the stream.
        taken: called when all that waited was taken.
    """

    def __init__(
        self,
        receive: Callable[[bytes], tuple[bytes, bool]] = lambda data: (b"", False),
        taken: Callable[[], None] = lambda: None,
    ) -> None:
        self._receive = receive
        self._taken = taken
        self._lock = threading.Lock()
        # Told only while a thread waits.
        self._changed = threading.Condition(self._lock)
        self._has_thread = False
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._is_ended = False
        self._is_gone = False
        self._is_awake = False
        self._wake: Callable[[], None] = lambda: None

    # --- for the thread that has the changes --------------------------------------------------------------

    def put(self, part: bytes, *, is_asked_for: bool = False) -> bool:
        """Let a part wait; False when too much waits already.

        Args:
            is_asked_for: it is never too much: whoever puts it waits until there is room.
        """
        with self._lock:
            if self._is_ended or self._is_gone:
                return True
            # One part alone may be larger.
            is_much = len(self._parts) >= MAX_PARTS or self._size + len(part) > MAX_BYTES
            if self._parts and is_much and not is_asked_for:
                return False
            is_asleep = self._add(part)
        if is_asleep:
            self._wake()
        return True

    def end(self, last: bytes, *, instead: bool = False) -> None:
        """Send a last part, and close the connection.

        Args:
            instead: drop the parts that wait.
        """
        with self._lock:
            if self._is_ended:
                return
            if instead:
                self._parts.clear()
                self._size = 0
            self._is_ended = True
            is_asleep = self._add(last)
        if is_asleep:
            self._wake()

    @property
    def has_room(self) -> bool:
        """Whether half of it is free."""
        return len(self._parts) < MAX_PARTS / 2 and self._size < MAX_BYTES / 2

    @property
    def is_open(self) -> bool:
        """Whether anything can still be sent."""
        return not (self._is_ended or self._is_gone)

    def _add(self, part: bytes) -> bool:
        """Let a part wait; whether whoever sends has to be woken."""
        self._parts.append(part)
        self._size += len(part)
        is_asleep, self._is_awake = not self._is_awake, True
        if self._has_thread:
            self._changed.notify()
        return is_asleep

    # --- for the server -----------------------------------------------------------------------------------

    def attach(self, wake: Callable[[], None]) -> None:
        """Call this whenever there is something to take. It is called at once, too."""
        self._wake = wake
        wake()

    def take(self) -> bytes:
        """All that waits; empty: nothing."""
        with self._lock:
            taken = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._is_awake = False
        self._taken()
        return taken

    @property
    def has_parts(self) -> bool:
        """Whether anything waits."""
        return bool(self._parts)

    @property
    def is_over(self) -> bool:
        """Whether everything was taken, and nothing follows."""
        return self._is_ended and not self._parts

    def received(self, data: bytes) -> None:
        """The watcher has sent this."""
        answer, is_last = self._receive(data)
        if is_last:
            self.end(answer)
        elif answer:
            self.put(answer)

    def leave(self) -> None:
        """The watcher has left."""
        with self._lock:
            self._is_gone = True
            self._changed.notify()

    def parts(self) -> Iterator[bytes]:
        """Everything, part by part: for a server that keeps a thread for each answer."""
        self._has_thread = True
        try:
            while not self._is_gone:
                with self._changed:
                    self._changed.wait_for(lambda: self._parts or self._is_ended or self._is_gone, LOOK_S)
                if taken := self.take():
                    yield taken
                if self.is_over:
                    return
        finally:
            self.leave()
