"""Where tenants take turns, a tenant gets as many of them as its weight."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from support.run_driver import Clock, RunDriver
from support.stored_values import VALUES

from pipeweave.orchestrator.queueing import tenant_limits
from pipeweave.orchestrator.queueing.tenant_limits import TenantLimits
from pipeweave.orchestrator.recovery import due_attempts
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.starts import loop
from pipeweave.orchestrator.starts.schedules import firing, storing
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec

EVERY = 60_000


def weigh(driver: RunDriver, weight: int) -> None:
    driver.database.run(lambda tx: tenant_limits.set_limits(tx, driver.tenant, TenantLimits(weight=weight)))


@pytest.fixture
def heavy(isolated_driver: RunDriver) -> RunDriver:
    """Of weight 3."""
    isolated_driver.store({"a": []}, id="one")
    weigh(isolated_driver, 3)
    return isolated_driver


@pytest.fixture
def light(heavy: RunDriver) -> RunDriver:
    """Of weight 1, in the same database."""
    driver = RunDriver(heavy.database)
    driver.store({"a": []}, id="one")
    return driver


def schedules(driver: RunDriver, number: int) -> None:
    spec = ScheduleSpec("one", every_ms=EVERY)
    for each in range(number):
        driver.database.run(lambda tx, each=each: storing.put(tx, driver.tenant, f"s{each}", spec))  # type: ignore[misc]


def runs_by_tenant(driver: RunDriver) -> Counter[str]:
    return Counter(row.tenant_id for row in driver.rows("SELECT tenant_id FROM runs"))


def test_of_due_schedules_a_tenant_of_weight_three_starts_three_for_each_one_of_another(
    heavy: RunDriver, light: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The light tenant's are due first: without turns they would all come first.
    schedules(light, 12)
    schedules(heavy, 12)
    monkeypatch.setattr(loop, "BATCH", 8)
    clock.ahead = timedelta(milliseconds=EVERY + 1_000)
    firing.run_once(heavy.database, VALUES)
    assert runs_by_tenant(heavy) == {heavy.tenant: 6, light.tenant: 2}


def test_with_equal_weights_each_tenant_starts_one_in_turn(
    heavy: RunDriver, light: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    weigh(heavy, 1)
    schedules(light, 12)
    schedules(heavy, 12)
    monkeypatch.setattr(loop, "BATCH", 8)
    clock.ahead = timedelta(milliseconds=EVERY + 1_000)
    firing.run_once(heavy.database, VALUES)
    assert runs_by_tenant(heavy) == {heavy.tenant: 4, light.tenant: 4}


def test_a_heavy_tenant_takes_no_turn_of_those_who_wait_when_it_has_nothing(
    heavy: RunDriver, light: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules(light, 8)
    monkeypatch.setattr(loop, "BATCH", 8)
    clock.ahead = timedelta(milliseconds=EVERY + 1_000)
    firing.run_once(heavy.database, VALUES)
    assert runs_by_tenant(heavy) == {light.tenant: 8}


def test_pending_runs_are_admitted_by_weight(
    heavy: RunDriver, light: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for driver in (light, heavy):
        driver.database.run(lambda tx, driver=driver: admission.set_limit(tx, driver.tenant, 1))  # type: ignore[misc]
        for _ in range(13):
            driver.trigger("one")
        with driver.database.transaction() as tx:
            tx.execute("UPDATE tenants SET max_active_runs = NULL WHERE id = :id", {"id": driver.tenant})
    before = heavy.rows("SELECT count(*) FROM runs WHERE status = 'running'")[0][0]
    monkeypatch.setattr(admission, "PER_TICK", 8)
    admission.admit_waiting(heavy.database)
    running = Counter(
        row.tenant_id for row in heavy.rows("SELECT tenant_id FROM runs WHERE status = 'running'")
    )
    assert before == 2
    assert running == {heavy.tenant: 7, light.tenant: 3}


def test_due_retries_are_released_by_weight(
    heavy: RunDriver, light: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with heavy.database.transaction() as tx:
        for driver in (light, heavy):
            for _ in range(12):
                tx.execute(
                    "UPDATE task_runs SET status = 'pending', due_at = now() WHERE run_id = :id",
                    {"id": driver.trigger("one")},
                )
        rows = tx.execute(due_attempts._DUE, {"window": 100, "batch": 8}).all()
        tenants = {row.run_id: row.tenant_id for row in tx.execute("SELECT run_id, tenant_id FROM task_runs")}
    assert Counter(tenants[row.run_id] for row in rows) == {heavy.tenant: 6, light.tenant: 2}
