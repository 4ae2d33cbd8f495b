"""After a promotion of PostgreSQL: one row in the audit, and no message for a row that is still executed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from support.run_driver import Clock, RunDriver

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.recovery import promotions, tick
from pipeweave.orchestrator.recovery.lost_messages import LATE
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.timeline import Timeline


@dataclass
class Steady:
    """A clock that the test moves on."""

    at: float = 0.0

    def __call__(self) -> float:
        return self.at


def promoted(database: Database, clock: Steady) -> None:
    """Let a process notice that the standby took over."""
    database.timeline = Timeline(clock)
    database.timeline.record("00000001")
    database.timeline.record("00000002")


def test_two_beats_write_one_row_into_the_audit(deployment: Deployment) -> None:
    promoted(deployment.database, Steady())
    for _ in range(2):
        tick.run_once(deployment)
    # As another process, it does not know what this one wrote.
    other = Database(f"{deployment.database.url}?connect_timeout=5", pool_size=0)
    promoted(other, Steady())
    assert promotions.run_once(other) == 0
    with deployment.database.reading() as tx:
        rows = tx.execute("SELECT * FROM audit WHERE verb = 'database.promoted'").all()
    assert [(each.object, each.before, each.after) for each in rows] == [
        ("timeline 2", {"timeline": 1}, {"timeline": 2})
    ]
    assert rows[0].tenant_id is None


def test_a_process_without_news_of_a_promotion_asks_nothing(deployment: Deployment) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/nothing", pool_size=0)
    assert promotions.run_once(away) == 0


def test_messages_are_not_missed_right_after_a_promotion(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    driver.begin({"a": [], "b": []})
    steady = Steady()
    promoted(deployment.database, steady)
    clock.ahead += timedelta(seconds=6)
    assert tick.run_once(deployment).republished == 0
    steady.at += LATE.total_seconds()
    assert tick.run_once(deployment).republished == 2
