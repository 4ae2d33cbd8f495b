"""A chore that takes long holds up neither what is due nor the tick."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.recovery import late_chores, tick
from pipeweave.orchestrator.recovery.chores import CHORES
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.orchestrator.store.database import BESIDE

# What has many rows or objects to look at.
SLOW = (
    *("partitions", "expiry", "old_queues", "task_removals", "lost_messages", "stuck_joins"),
    *("events", "statistics", "old_statistics", "storage"),
)


@pytest.fixture
def goes_on() -> Iterator[threading.Event]:
    """Until it is set, the slow chore is under way."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("name", SLOW)
def test_a_schedule_fires_while_a_slow_chore_is_under_way(
    deployment: Deployment,
    driver: RunDriver,
    goes_on: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    def take_long(_: Deployment) -> int:
        assert goes_on.wait(60), "the tick waits for it"
        return 0

    chores = [
        replace(each, run_once=take_long, is_due=None) if each.name == name else each for each in CHORES
    ]
    with monkeypatch.context() as patch:
        patch.setattr(late_chores, "WAIT_S", 0.0)
        tick.run_once(deployment, chores)
    driver.store({"a": []})
    spec = storing.ScheduleSpec("driven", every_ms=3_600_000)
    driver.database.run(lambda tx: storing.put(tx, tenant=driver.tenant, schedule_id="hourly", spec=spec))
    driver.rows("UPDATE schedules SET next_fire_at = now() - interval '1 s' RETURNING id")
    assert tick.run_once(deployment, chores).schedules_fired == 1
    assert late_chores.is_under_way(driver.database, name)
    goes_on.set()

    def is_over() -> bool:
        tick.run_once(deployment, chores)
        return not late_chores.is_under_way(driver.database, name)

    wait_until(is_over, what="the tick does not find it ended")


def test_each_chore_beside_the_tick_has_a_connection() -> None:
    # Without workers, the tick dispatches; there nothing waits for messages.
    assert sum(each.may_wait for each in CHORES) <= BESIDE + 1
