"""A worker's pool has as many children at work as it should, whatever becomes of one that starts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kombu.asynchronous import Hub
from support.servers import wait_until

from pipeweave.workers.process.pool import ChildPool

# After this time (s), doubled, a child that is not ready is taken for stuck.
READY_WITHIN_S = 0.3


class Running:
    """A pool of one child in an event loop, as Celery's worker runs it.

    Args:
        stuck: while this file is there, a child that starts does not get ready.
    """

    def __init__(self, stuck: Path, ready_within_s: float) -> None:
        self.hub = Hub()
        self.pool = ChildPool(
            1,
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


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    return tmp_path / "stuck"


@pytest.fixture
def running(stuck: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    made = Running(stuck, getattr(request, "param", 60.0))
    yield made
    made.stop()


@pytest.mark.parametrize("running", [READY_WITHIN_S], indirect=True)
def test_a_child_that_never_gets_ready_is_replaced_though_the_broker_was_lost_meanwhile(
    running: Running, stuck: Path
) -> None:
    running.until(lambda: len(running.ready()) == 1, "no child")
    (first,) = running.ready()
    stuck.touch()
    os.kill(first, signal.SIGKILL)
    running.until(lambda: first not in [child.pid for child in running.pool._pool], "no successor")
    (second,) = [child.pid for child in running.pool._pool]
    os.kill(second, signal.SIGSTOP)  # as if it waited for a lock that nobody holds
    stuck.unlink()
    running.lose_broker()
    running.until(lambda: len(running.ready()) == 1, "the stuck child was not replaced")
    assert running.ready() != [second]


def test_a_child_that_dies_while_its_successor_starts_is_replaced_once(running: Running, stuck: Path) -> None:
    running.until(lambda: len(running.ready()) == 1, "no child")
    (first,) = running.ready()
    stuck.touch()
    running.pool._on_wish(first)
    assert len(running.pool._pool) == 2, "its successor starts"
    os.kill(first, signal.SIGKILL)
    running.until(lambda: len(running.pool._pool) == 1, "the dead child is still there")
    stuck.unlink()
    running.until(lambda: len(running.ready()) == 1, "the successor is not ready")
    (second,) = running.ready()
    running.pool._on_wish(second)
    running.until(lambda: running.ready() not in ([], [second]), "the next one that asks is not replaced")
    running.until(lambda: len(running.pool._pool) == 1, "there are more children than one")
