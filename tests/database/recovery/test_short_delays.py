"""A delay that is shorter than the time between two ticks, or between two looks, ends on time."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import UUID

import pytest
from support.run_driver import RunDriver

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.store.alarm import Alarm
from pipeweave.workers.loops import enqueued as loop
from pipeweave.workers.loops.attempt_looks import SELDOM_S
from pipeweave.workers.loops.enqueued import EnqueuedStarts

_WAITS = """UPDATE task_runs SET status = 'pending', due_at = now() + CAST(:delay AS interval)
    WHERE run_id = :id RETURNING id"""


@pytest.fixture(autouse=True)
def no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop pauses at what stops it, and not at PostgreSQL's notifications."""
    monkeypatch.setattr(Alarm, "set", lambda _: False)


class Pauses(threading.Event):
    """What stops a loop; it keeps the pauses of the loop, and calls something before the first."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        return super().wait(timeout)


def waiting(driver: RunDriver, delay: timedelta) -> UUID:
    """A run whose step waits for its next attempt."""
    run_id = driver.begin({"a": []})
    driver.rows(_WAITS, id=run_id, delay=delay)
    return run_id


def released(starts: EnqueuedStarts, driver: RunDriver, run_id: UUID) -> list[float]:
    """The pauses of the loop until the step of a run is released."""
    pauses = Pauses()
    while driver.statuses(run_id) == {"a": "pending"}:
        starts.turn(pauses)
    assert driver.statuses(run_id) == {"a": "queued"}
    return pauses.seconds


def test_the_loop_wakes_up_when_the_delay_ends_that_it_has_seen(deployment: Deployment) -> None:
    driver = RunDriver(deployment.database)
    starts = EnqueuedStarts(deployment)
    run_id = waiting(driver, timedelta(seconds=0.2))
    pauses = released(starts, driver, run_id)
    # Far fewer looks than an idle loop would have made, and each no longer than what was left.
    assert 1 <= len(pauses) <= 3
    assert max(pauses) <= 0.2 < SELDOM_S


def test_after_a_delay_that_it_has_not_seen_the_loop_looks_more_often(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the looks of a busy machine are.
    monkeypatch.setattr(loop, "PAUSE_PER_LOOK", 0)
    driver = RunDriver(deployment.database)
    starts = EnqueuedStarts(deployment)
    assert starts.turn(_once()) == 0.0
    # Its delay began and ended between two looks.
    assert max(released(starts, driver, waiting(driver, timedelta(seconds=-0.1)))) == SELDOM_S
    run_id = waiting(driver, timedelta(seconds=0.05))
    assert max(released(starts, driver, run_id), default=0.0) <= 0.05


def _once() -> Pauses:
    """Ends the loop at its first pause."""
    pauses = Pauses()
    pauses.set()
    return pauses
