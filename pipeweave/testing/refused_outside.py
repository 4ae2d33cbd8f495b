"""Refuses what leaves the process while a function is called again: connections, and other processes.

Python tells its audit hooks before it does either, in whatever library the call is. It is a guard against
accidents of one's own code, not a sandbox against hostile code. Files are not guarded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_REFUSED = frozenset(
    {
        *("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"),
        *("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
    }
)


class WentOutside(Exception):
    """The call wanted to leave the process; the message says how."""


class _Guard:
    """The audit hook: Python never removes one, so it is added once, and asks whether a call is under way."""

    def __init__(self) -> None:
        self.calls = 0
        self.lock = threading.Lock()
        self.is_added = False

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.calls and event in _REFUSED:
            raise WentOutside(f"{event} is refused")


_GUARD = _Guard()


@contextmanager
def refused_outside() -> Iterator[None]:
    """For the block, what would leave the process raises WentOutside, in each of its threads."""
    with _GUARD.lock:
        if not _GUARD.is_added:
            sys.addaudithook(_GUARD.look)
            _GUARD.is_added = True
        _GUARD.calls += 1
    try:
        yield
    finally:
        with _GUARD.lock:
            _GUARD.calls -= 1
