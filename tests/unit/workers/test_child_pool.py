"""A worker's pool has as many children at work as it should, whatever becomes of one that starts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.running_pool import RunningPool

# After this time (s), doubled, a child that is not ready is taken for stuck.
READY_WITHIN_S = 0.3


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    return tmp_path / "stuck"


@pytest.fixture
def running(stuck: Path, request: pytest.FixtureRequest) -> Iterator[RunningPool]:
    made = RunningPool(stuck, getattr(request, "param", 60.0))
    yield made
    made.stop()


@pytest.mark.parametrize("running", [READY_WITHIN_S], indirect=True)
def test_a_child_that_never_gets_ready_is_replaced_though_the_broker_was_lost_meanwhile(
    running: RunningPool, stuck: Path
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


def test_a_child_that_dies_while_its_successor_starts_is_replaced_once(
    running: RunningPool, stuck: Path
) -> None:
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
