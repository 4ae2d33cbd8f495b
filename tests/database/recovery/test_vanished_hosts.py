"""A process froze or its host vanished: what it held is taken over or passed over, and nobody else waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import psycopg2
import pytest
from support.concurrency import BackgroundCall
from support.empty_broker import broker_that_is_away
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave.errors import Conflict, Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import check_processes
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.recovery import tick, tick_status
from pipeweave.orchestrator.recovery.chores import Chore
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database, Transaction


@pytest.fixture
def broker() -> Publisher:
    return broker_that_is_away()


@contextmanager
def vanished(driver: RunDriver, *statements: str) -> Iterator[None]:
    """Hold what these statements lock, by a session that never says anything again and whose connection stays
    open. It is not one of ours: no time-out of ours ends it before the block does.
    """
    session = psycopg2.connect(driver.database.url)
    try:
        with session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, {"tenant": driver.tenant})
        yield
    finally:
        session.close()


# --- leases -----------------------------------------------------------------------------------------------


def test_when_the_process_that_ticks_freezes_another_one_ticks_within_seconds(deployment: Deployment) -> None:
    frozen, thawed, later = threading.Event(), threading.Event(), []

    def freeze(_: Deployment) -> int:
        frozen.set()
        assert thawed.wait(60)
        return 0

    def note(_: Deployment) -> int:
        later.append("a chore after the freeze")
        return 0

    chores = (Chore("frozen", freeze, None), Chore("later", note, None))
    with BackgroundCall(lambda: tick.run_once(deployment, chores)):
        assert frozen.wait(60)
        assert tick.run_once(deployment).is_elsewhere
        wait_until(lambda: not tick.run_once(deployment).is_elsewhere, what="nobody ticks")
        with deployment.database.transaction() as tx:
            before = tick_status.find(tx).at
        thawed.set()
    assert later == [], "the lease was lost"
    with deployment.database.transaction() as tx:
        assert tick_status.find(tx).at == before
        assert "frozen" not in [each.name for each in tick_status.chores(tx)]


def test_a_tick_that_takes_long_goes_on_while_nobody_else_ticks(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick, "LEASE", timedelta(milliseconds=1))
    done: list[str] = []

    def take_long(_: Deployment) -> int:
        with deployment.database.transaction() as tx:
            tx.execute("SELECT pg_sleep(0.05)")
        done.append("a chore")
        return 0

    tick.run_once(deployment, [Chore(name, take_long, None) for name in ("first", "second", "third")])
    assert len(done) == 3
    with deployment.database.transaction() as tx:
        assert len(tick_status.chores(tx)) == 3


def test_a_lease_is_held_once_and_each_taking_has_a_higher_number(database: Database) -> None:
    first = leases.take(database, "test", timedelta(minutes=1))
    assert first is not None
    assert leases.take(database, "test", timedelta(minutes=1)) is None
    leases.end(database, first)
    second = leases.take(database, "test", timedelta(milliseconds=1))
    assert second is not None
    assert second.number == first.number + 1
    assert not leases.renew(database, first)
    assert leases.renew(database, second)
    with pytest.raises(Conflict), database.transaction() as tx:
        leases.check(tx, first)
    leases.end(database, second)


def test_a_lease_that_is_held_is_renewed_until_the_end_of_the_block(database: Database) -> None:
    lasts = timedelta(seconds=0.3)
    with leases.held(database, "renewed", lasts) as mine:
        assert mine is not None
        began = mine.renewed_at
        wait_until(lambda: mine.renewed_at > began + 2 * lasts.total_seconds(), 60, "it is not renewed")
        with database.transaction() as tx:
            leases.check(tx, mine)
    assert leases.take(database, "renewed", lasts) is not None


# --- locks of a session that is silent --------------------------------------------------------------------


def test_a_session_of_ours_that_is_silent_in_a_transaction_holds_its_locks_for_seconds(
    driver: RunDriver, deployment: Deployment
) -> None:
    """The host of a worker or of the API vanished between a statement and its COMMIT."""
    run_id = driver.begin({"a": []})
    other = Database(driver.database.url, pool_size=1)
    change = "UPDATE runs SET metadata = '{}' WHERE id = :id"
    with pytest.raises(Unavailable), other.transaction() as silent:
        silent.execute(change, {"id": run_id})
        driver.database.run(lambda tx: tx.execute(change, {"id": run_id}))
        silent.execute("SELECT 1")
    other.dispose()


def lost_attempt(driver: RunDriver) -> UUID:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claiming.start(tx, run_id, [1], 1, worker="gone@host:1:ab#1")
    return run_id


def due_retry(driver: RunDriver) -> UUID:
    run_id = driver.begin({"a": []})
    change = "status = 'pending', due_at = now(), queued_at = NULL"
    driver.rows(f"UPDATE task_runs SET {change} WHERE run_id = :id RETURNING 1", id=run_id)
    return run_id


def late_run(driver: RunDriver) -> UUID:
    run_id = driver.begin({"a": []})
    driver.rows("UPDATE runs SET deadline_at = now() WHERE id = :id RETURNING 1", id=run_id)
    return run_id


def ready_task_run(driver: RunDriver) -> UUID:
    """Its limit has room, and nobody knows."""
    run_id = driver.begin({"a": []}, tasks={"a": "single"})
    change = "UPDATE task_runs SET status = 'ready' WHERE run_id = :id RETURNING 1"
    driver.rows(change, id=run_id)
    return run_id


def silent_worker(driver: RunDriver, tx: Transaction) -> None:
    tx.execute(
        """INSERT INTO workers (id, tenant_id, service_id, name, hostname, pid, concurrency, task_count,
            started_at, heartbeat_at, suspected_at)
        VALUES (:tenant, :tenant, 'python', 'w', 'h', 1, 1, 1, now() - interval '1 h', now() - interval '1 h',
            now() - interval '1 min')""",
        {"tenant": driver.tenant},
    )


EVERYTHING_OF_A_TENANT = (
    "SELECT 1 FROM tenants WHERE id = %(tenant)s FOR UPDATE",
    "SELECT 1 FROM services WHERE tenant_id = %(tenant)s FOR UPDATE",
    "SELECT 1 FROM workers WHERE tenant_id = %(tenant)s FOR UPDATE",
    "SELECT 1 FROM runs WHERE tenant_id = %(tenant)s FOR UPDATE",
    "SELECT 1 FROM task_runs WHERE tenant_id = %(tenant)s FOR UPDATE",
    "SELECT 1 FROM tasks WHERE tenant_id = %(tenant)s FOR UPDATE",
)


class Tenant:
    """A tenant for whom every chore has something to do."""

    def __init__(self, database: Database) -> None:
        self.driver = RunDriver(database)
        with database.transaction() as tx:
            silent_worker(self.driver, tx)
        self.lost = lost_attempt(self.driver)
        self.due = due_retry(self.driver)
        self.ready = ready_task_run(self.driver)
        self.late = late_run(self.driver)
        with database.transaction() as tx:
            tx.execute("UPDATE tenants SET max_active_runs = 4 WHERE id = :id", {"id": self.driver.tenant})
        self.waiting = self.driver.begin({"a": []})

    def look(self) -> dict[str, str]:
        """What the chores decide about."""
        [worker] = self.driver.rows("SELECT stopped_at FROM workers WHERE id = :id", id=self.driver.tenant)
        return {
            "worker": "alive" if worker.stopped_at is None else "stopped",
            "attempts of the lost": str(self.driver.task_runs(self.lost)[0].attempt),
            "due": self.driver.statuses(self.due)["a"],
            "ready": self.driver.statuses(self.ready)["a"],
            "late": self.driver.run(self.late).status,
            "waiting": self.driver.run(self.waiting).status,
        }


BEFORE = {
    "worker": "alive",
    "attempts of the lost": "1",
    "due": "pending",
    "ready": "ready",
    "late": "running",
    "waiting": "pending",
}
AFTER = {
    "worker": "stopped",
    "attempts of the lost": "2",
    "due": "queued",
    "ready": "queued",
    "late": "failed",
    "waiting": "running",
}


def test_rows_that_a_vanished_host_holds_keep_nothing_else_waiting(
    deployment: Deployment, driver: RunDriver
) -> None:
    locked, free = Tenant(driver.database), Tenant(driver.database)
    assert (locked.look(), free.look()) == (BEFORE, BEFORE)
    with vanished(locked.driver, *EVERYTHING_OF_A_TENANT):
        for _ in range(2):
            assert tick.run_once(deployment).failed_chores == ()
        assert (locked.look(), free.look()) == (BEFORE, AFTER)
        with driver.database.transaction() as tx:
            skipping = {each.name for each in tick_status.chores(tx) if each.skipped}
            assert {"lost_attempts", "due_attempts", "deadlines", "limits"} <= skipping
            tx.execute("UPDATE tick_chores SET skipped_since = skipped_since - interval '1 minute'")
        verdict = check_processes.chores(deployment.settings)
        assert "skip locked rows" in verdict.line
    for _ in range(2):
        tick.run_once(deployment)
    assert locked.look() == AFTER
    with driver.database.transaction() as tx:
        assert [each.name for each in tick_status.chores(tx) if each.skipped or each.skipped_since] == []


def test_a_change_of_the_mode_that_never_ends_does_not_stop_the_tick(
    deployment: Deployment, driver: RunDriver
) -> None:
    run_id = due_retry(driver)
    with vanished(driver, "UPDATE orchestrator_state SET reason = 'gone'"):
        tick.run_once(deployment)
    assert driver.statuses(run_id) == {"a": "queued"}


def test_a_pending_run_that_is_locked_keeps_no_other_one_waiting(
    deployment: Deployment, driver: RunDriver
) -> None:
    """Whoever cancelled it vanished before the commit."""
    driver.store({"a": []})
    driver.rows("UPDATE tenants SET max_active_runs = 1 RETURNING 1")
    _, first, second = (driver.trigger() for _ in range(3))
    driver.rows("UPDATE tenants SET max_active_runs = 2 RETURNING 1")
    with vanished(driver, f"SELECT 1 FROM runs WHERE id = '{first}' FOR UPDATE"):
        tick.run_once(deployment)
        assert [driver.run(each).status for each in (first, second)] == ["pending", "running"]
