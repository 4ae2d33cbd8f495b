"""A worker's pool of children in an event loop, without a broker and without messages of ours."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kombu.asynchronous import Hub

from pipeweave.workers.process.pool import ChildPool
from support.servers import wait_until


class RunningPool:
    """A pool of children in an event loop, as Celery's worker runs it.

    Args:
        stuck: while this file is there, a child that starts does not get ready.
        ready_within_s: after this time (s), doubled, a child that is not ready is taken for stuck.
        children: how many there are.
    """

    def __init__(self, stuck: Path, ready_within_s: float = 60.0, *, children: int = 1) -> None:
        self.hub = Hub()
        self.pool = ChildPool(
            children,
            threads=False,
            initializer=_wait_while,
            initargs=(str(stuck),),
            proc_alive_timeout=ready_within_s,
        )
        self.begin()

    def begin(self) -> None:
        """Attach the pool to the event loop: when the worker starts, and when it has a broker again."""
        self.pool.register_with_event_loop(self.hub)
        self._loop = self.hub.create_loop()

    def lose_broker(self) -> None:
        """What Celery's consumer does then: timers are forgotten, and the event loop begins anew."""
        self.hub.timer.clear()
        self.pool.flush()
        self.hub.reset()
        self.begin()

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        def turned() -> bool:
            self.hub.call_later(0.01, lambda: None)  # the loop waits for an event otherwise
            next(self._loop)
            self.pool.maintain_pool()  # Celery does this every five seconds
            return is_so()

        wait_until(turned, what=what)

    def ready(self) -> list[int]:
        """The process ids of the children that messages are handed to."""
        return [child.pid for child in self.pool._pool if child.inqW_fd in self.pool._all_inqueues]

    def stop(self) -> None:
        for child in self.pool._pool:
            os.kill(child.pid, signal.SIGKILL)
        self.pool.terminate()
        self.pool.join()
        self.hub.close()


def _wait_while(stuck: str) -> None:
    while os.path.exists(stuck):
        time.sleep(0.01)
