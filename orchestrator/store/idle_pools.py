"""Closes the connections of a pool that nobody has used for a while.

PostgreSQL keeps a process for each connection. A worker with many children, most of them idle, would hold
many of them for nothing.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Protocol

# A pool that is unused for so long (s) is closed, and the thread looks this often (s).
IDLE_FOR_S = 30.0
LOOK_EVERY_S = 5.0


class Closable(Protocol):
    """A pool of connections."""

    def close_if_idle(self, seconds: float) -> bool:
        """Close every connection if none was used for so long (s); say whether they are closed."""


class IdlePools:
    """The pools of this process that have connections, and the thread that closes them."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget the pools and the thread: they are those of the process that this one was forked from."""
        self._lock = threading.Lock()
        self._pools: weakref.WeakSet[Closable] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def watch(self, pool: Closable) -> None:
        """Close this pool's connections when it has been idle for long enough."""
        with self._lock:
            self._pools.add(pool)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="idle-pools", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            with self._lock:
                for pool in list(self._pools):
                    if pool.close_if_idle(IDLE_FOR_S):
                        self._pools.discard(pool)
                if not self._pools:
                    self._thread = None
                    return


IDLE_POOLS = IdlePools()
os.register_at_fork(after_in_child=IDLE_POOLS.begin_anew)
