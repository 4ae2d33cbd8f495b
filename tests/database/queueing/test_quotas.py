"""Quotas of a tenant: exactly so much, for whatever begins a run, and nothing lost that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.concurrency import call_concurrently
from support.factories import register
from support.run_driver import Clock, RunDriver
from support.stored_values import VALUES

from pipeweave.errors import InvalidInput, QuotaExceeded, TenantDisabled
from pipeweave.orchestrator.queueing import quotas, start_conditions, tenant_limits
from pipeweave.orchestrator.queueing.tenant_limits import TenantLimits
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.starts import enqueued
from pipeweave.orchestrator.starts.schedules import firing, storing
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec


@pytest.fixture
def driver(database: Any) -> Iterator[RunDriver]:
    made = RunDriver(database)
    made.store({"a": []}, id="one")
    made.store({"a": [], "b": ["a"], "c": ["b"]}, id="three")
    yield made


def limit(driver: RunDriver, **limits: Any) -> None:
    driver.database.run(lambda tx: tenant_limits.set_limits(tx, driver.tenant, TenantLimits(**limits)))


def runs_of(driver: RunDriver) -> int:
    return int(driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :id", id=driver.tenant)[0][0])


def trigger(driver: RunDriver, pipeline: str = "one", number: int = 1) -> None:
    requests = [StartRequest(pipeline)] * number
    driver.database.run(
        lambda tx: triggering.trigger_many(tx, VALUES, driver.tenant, pipeline, requests), is_one=False
    )


# --- runs a day -------------------------------------------------------------------------------------------


def test_the_run_beyond_those_of_the_day_is_refused_and_says_what_is_used_and_when_it_frees(
    driver: RunDriver,
) -> None:
    limit(driver, runs_per_day=2)
    trigger(driver)
    trigger(driver)
    with pytest.raises(QuotaExceeded) as refused:
        trigger(driver)
    now = driver.database.now()
    context = refused.value.context
    assert (context["quota"], context["limit"], context["used"]) == ("runsPerDay", 2, 2)
    frees_at = datetime.fromisoformat(context["freesAt"])
    assert frees_at.time().isoformat() == "00:00:00"
    assert timedelta() < frees_at - now <= timedelta(days=1)
    assert 0 < refused.value.retry_after_s <= 86_400
    assert runs_of(driver) == 2


def test_a_batch_is_accepted_as_a_whole_or_refused_as_a_whole(driver: RunDriver) -> None:
    limit(driver, runs_per_day=3)
    trigger(driver, number=2)
    with pytest.raises(QuotaExceeded, match="2 more are asked for"):
        trigger(driver, number=2)
    trigger(driver)
    assert runs_of(driver) == 3


def test_of_eight_threads_exactly_so_many_runs_begin_as_the_quota_allows(driver: RunDriver) -> None:
    limit(driver, runs_per_day=5)

    def attempt() -> bool:
        try:
            trigger(driver)
        except QuotaExceeded:
            return False
        return True

    outcomes = [each.result for _ in range(2) for each in call_concurrently(*[attempt] * 8)]
    assert outcomes.count(True) == 5
    assert runs_of(driver) == 5


def test_a_quota_that_is_set_at_noon_counts_the_runs_of_the_morning(driver: RunDriver) -> None:
    trigger(driver, number=3)
    limit(driver, runs_per_day=3)
    with pytest.raises(QuotaExceeded):
        trigger(driver)


def test_after_midnight_of_utc_runs_begin_again(isolated_driver: RunDriver, clock: Clock) -> None:
    driver = isolated_driver
    driver.store({"a": []}, id="one")
    limit(driver, runs_per_day=1)
    trigger(driver)
    with pytest.raises(QuotaExceeded):
        trigger(driver)
    now = datetime.now(UTC)
    clock.ahead = quotas.midnight(now.date()) - now + timedelta(seconds=1)
    trigger(driver)
    assert runs_of(driver) == 2


def test_a_run_that_a_token_repeats_is_not_counted_again(driver: RunDriver) -> None:
    limit(driver, runs_per_day=1)
    request = StartRequest("one", run_token="once")
    for _ in range(3):
        driver.database.run(lambda tx: triggering.trigger(tx, VALUES, driver.tenant, request))
    assert runs_of(driver) == 1


def test_a_standalone_task_is_a_run_of_the_day(driver: RunDriver) -> None:
    limit(driver, runs_per_day=1)
    trigger(driver)
    with pytest.raises(QuotaExceeded):
        driver.database.run(
            lambda tx: standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop")])
        )


def test_a_quota_that_was_lifted_holds_nobody_back_even_where_a_process_remembers_it(
    driver: RunDriver,
) -> None:
    limit(driver, runs_per_day=1)
    trigger(driver)
    limit(driver)
    trigger(driver)
    assert runs_of(driver) == 2


def test_quotas_of_one_tenant_concern_no_other(driver: RunDriver) -> None:
    limit(driver, runs_per_day=0)
    other = RunDriver(driver.database)
    other.store({"a": []}, id="one")
    trigger(other)
    assert runs_of(other) == 1


def test_a_tenant_without_quotas_has_no_row_of_what_it_uses(driver: RunDriver) -> None:
    trigger(driver)
    assert driver.rows("SELECT 1 FROM tenant_use WHERE tenant_id = :id", id=driver.tenant) == []


# --- open task runs ---------------------------------------------------------------------------------------


def test_open_task_runs_are_counted_from_their_rows_so_that_ended_ones_make_room(
    isolated_driver: RunDriver, clock: Clock
) -> None:
    driver = isolated_driver
    driver.store({"a": [], "b": ["a"], "c": ["b"]}, id="three")
    limit(driver, open_task_runs=4)
    run_id = driver.trigger("three")
    with pytest.raises(QuotaExceeded) as refused:
        trigger(driver, "three")
    assert refused.value.context["used"] == 3
    assert refused.value.context["freesAt"] is None
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))
    clock.ahead += quotas.COUNT_EVERY
    trigger(driver, "three")


def test_open_task_runs_that_were_accepted_since_the_last_count_count(driver: RunDriver) -> None:
    limit(driver, open_task_runs=6)
    outcomes = []
    for _ in range(3):
        try:
            trigger(driver, "three")
            outcomes.append(True)
        except QuotaExceeded:
            outcomes.append(False)
    assert outcomes == [True, True, False]


# --- stored bytes -----------------------------------------------------------------------------------------


def test_beyond_the_stored_bytes_of_the_last_sum_no_run_begins(driver: RunDriver) -> None:
    limit(driver, stored_bytes=1_000)
    trigger(driver)
    with driver.database.transaction() as tx:
        tx.execute(
            "UPDATE tenant_use SET stored_bytes = 1000, stored_at = :now WHERE tenant_id = :id",
            {"id": driver.tenant, "now": tx.now},
        )
    with pytest.raises(QuotaExceeded) as refused:
        trigger(driver)
    assert refused.value.context["quota"] == "storedBytes"
    assert 1 < refused.value.retry_after_s <= quotas.SUM_EVERY.total_seconds()


# --- what begins runs by itself ---------------------------------------------------------------------------


def test_a_schedule_beyond_the_quota_is_refused_and_one_that_is_there_may_change(driver: RunDriver) -> None:
    limit(driver, schedules=1)
    spec = ScheduleSpec("one", every_ms=60_000)
    for name in ("first", "first"):
        driver.database.run(lambda tx, name=name: storing.put(tx, driver.tenant, name, spec))
    with pytest.raises(QuotaExceeded, match="may have 1 schedules, 1 are used"):
        driver.database.run(lambda tx: storing.put(tx, driver.tenant, "second", spec))


def test_a_fire_that_is_refused_is_noted_and_the_schedule_goes_on(
    isolated_driver: RunDriver, clock: Clock
) -> None:
    driver = isolated_driver
    driver.store({"a": []}, id="one")
    limit(driver, runs_per_day=0)
    spec = ScheduleSpec("one", every_ms=60_000)
    driver.database.run(lambda tx: storing.put(tx, driver.tenant, "often", spec))
    clock.ahead = timedelta(seconds=61)
    assert firing.run_once(driver.database, VALUES) == 1
    [fire] = driver.rows(
        "SELECT outcome, error_code FROM schedule_fires WHERE tenant_id = :id", id=driver.tenant
    )
    assert (fire.outcome, fire.error_code) == ("failed", "QUOTA_EXCEEDED")
    [schedule] = driver.rows("SELECT next_fire_at FROM schedules WHERE tenant_id = :id", id=driver.tenant)
    assert schedule.next_fire_at > driver.database.now()


def test_an_enqueued_run_waits_until_its_quota_has_room(isolated_driver: RunDriver, clock: Clock) -> None:
    driver = isolated_driver
    driver.store({"a": []}, id="one")
    limit(driver, runs_per_day=0)
    with driver.database.transaction() as tx:
        tx.execute(
            "INSERT INTO enqueued_runs (id, tenant_id, pipeline_id) VALUES (:id, :tenant, 'one')",
            {"id": tx.new_id(), "tenant": driver.tenant},
        )
    enqueued.run_once(driver.database, VALUES)
    [row] = driver.rows(
        "SELECT settled_at, error_code FROM enqueued_runs WHERE tenant_id = :id", id=driver.tenant
    )
    assert (row.settled_at, row.error_code) == (None, "QUOTA_EXCEEDED")
    limit(driver)
    clock.ahead = timedelta(hours=2)
    with driver.database.transaction() as tx:
        tx.execute("UPDATE enqueued_runs SET due_at = now()")
    enqueued.run_once(driver.database, VALUES)
    assert runs_of(driver) == 1


# --- disabled ---------------------------------------------------------------------------------------------


def disable(driver: RunDriver, reason: str | None = None) -> None:
    driver.database.run(lambda tx: tenant_limits.disable(tx, driver.tenant, reason=reason, by="root"))


def test_no_run_of_a_disabled_tenant_begins_and_what_is_under_way_ends(driver: RunDriver) -> None:
    run_id = driver.trigger("three")
    disable(driver, "unpaid")
    with pytest.raises(TenantDisabled, match="is disabled: unpaid"):
        trigger(driver)
    for step in "abc":
        driver.finish(run_id, step)
    assert driver.run(run_id).status == "completed"


def test_an_enabled_tenant_begins_runs_again_even_where_a_process_remembers_that_it_was_disabled(
    driver: RunDriver,
) -> None:
    trigger(driver)
    disable(driver)
    with pytest.raises(TenantDisabled):
        trigger(driver)
    with driver.database.statements() as tx:
        start_conditions.look(tx, driver.tenant)
    driver.database.run(lambda tx: tenant_limits.enable(tx, driver.tenant))
    trigger(driver)
    assert runs_of(driver) == 2


def test_limits_out_of_range_are_refused_with_their_fields(driver: RunDriver) -> None:
    with pytest.raises(InvalidInput) as refused:
        limit(driver, runs_per_day=-1, weight=101, request_rate="fast")
    assert [each.field for each in refused.value.errors] == ["runsPerDay", "weight", "requestRate"]


def test_a_registration_keeps_the_limits_of_its_tenant(driver: RunDriver) -> None:
    limit(driver, runs_per_day=7, weight=3)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "noop")
        row = tenant_limits.row_with_use(tx, driver.tenant)
    assert (row.runs_per_day, row.weight) == (7, 3)
