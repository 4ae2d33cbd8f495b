"""Schedules that are due: each time once, by any number of ticks, whatever dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.concurrency import BackgroundCall, call_concurrently
from support.due_chores import due_chores
from support.factories import end_run, remove_task
from support.run_driver import Clock, RunDriver
from support.stored_values import VALUES

from pipeweave.errors import InputValidationFailed, InvalidInput, NotFound
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.starts import loop, new_runs
from pipeweave.orchestrator.starts.schedules import by_hand, firing, storing
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec
from pipeweave.orchestrator.store.database import Database

MINUTE = timedelta(minutes=1)
NEEDS_A_NAME = {"fields": [{"name": "name", "label": "Name", "type": "string", "required": True}]}


@pytest.fixture
def driver(isolated_driver: RunDriver) -> Iterator[RunDriver]:
    """Alone in its database, because the chore looks at all tenants."""
    isolated_driver.store({"a": []}, id="files")
    yield isolated_driver


def put(driver: RunDriver, id: str = "nightly", **options: Any) -> None:
    given = {"pipeline_id": "files", "every_ms": 60_000, **options}
    driver.database.run(lambda tx: storing.put(tx, driver.tenant, id, ScheduleSpec(**given)))


def tick(driver: RunDriver, clock: Clock | None = None, later: timedelta = timedelta()) -> int:
    if clock is not None:
        clock.ahead += later
    return firing.run_once(driver.database, VALUES)


def fires(driver: RunDriver, id: str = "nightly") -> list[Any]:
    statement = "SELECT * FROM schedule_fires WHERE schedule_id = :id ORDER BY scheduled_at"
    return driver.rows(statement, id=id)


def outcomes(driver: RunDriver, id: str = "nightly") -> list[str]:
    return [each.outcome for each in fires(driver, id)]


def schedule(driver: RunDriver, id: str = "nightly") -> Any:
    return driver.rows("SELECT * FROM schedules WHERE id = :id", id=id)[0]


def runs(driver: RunDriver) -> list[Any]:
    return driver.rows("SELECT * FROM runs ORDER BY id")


# --- firing -----------------------------------------------------------------------------------------------


def test_nothing_starts_before_its_time_and_then_one_run_does(driver: RunDriver, clock: Clock) -> None:
    put(driver, input={"folder": "/srv"})
    assert tick(driver) == 0
    due = schedule(driver).next_fire_at
    assert tick(driver, clock, 61 * timedelta(seconds=1)) == 1
    (run,) = runs(driver)
    (fire,) = fires(driver)
    assert (fire.outcome, fire.run_id, fire.scheduled_at) == ("fired", run.id, due)
    assert run.input == {"folder": "/srv"}
    assert run.metadata["scheduleId"] == "nightly"
    assert (run.triggered_kind, run.triggered_id) == ("schedule", "nightly")
    assert schedule(driver).next_fire_at == due + MINUTE
    assert tick(driver) == 0
    assert driver.released(run.id) == [1]


def test_two_ticks_at_once_start_each_schedule_once(driver: RunDriver, clock: Clock) -> None:
    for number in range(6):
        put(driver, f"s{number}")
    clock.ahead += 65 * timedelta(seconds=1)
    others = [Database(driver.database.url, now=clock) for _ in range(2)]
    calls = call_concurrently(*(lambda each=each: firing.run_once(each, VALUES) for each in others))
    for each in others:
        each.dispose()
    assert sum(each.result for each in calls) == 6
    assert len(runs(driver)) == 6


def test_a_schedule_whose_row_is_locked_is_passed_over(driver: RunDriver, clock: Clock) -> None:
    put(driver)
    put(driver, "other")
    clock.ahead += 65 * timedelta(seconds=1)
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM schedules WHERE id = 'nightly' FOR UPDATE")
        with BackgroundCall(lambda: tick(driver)) as ticked:
            ticked.wait()
        assert ticked.result == 1
    assert outcomes(driver, "other") == ["fired"]
    assert tick(driver) == 1


@pytest.mark.parametrize("broken", ["schedule_fires", "UPDATE schedules", "INSERT INTO runs"])
def test_a_tick_that_dies_anywhere_leaves_nothing_half_done(
    driver: RunDriver, clock: Clock, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(driver)
    clock.ahead += 65 * timedelta(seconds=1)
    execute = triggering.Transaction.execute

    def dying(self: Any, statement: str, *arguments: Any, **options: Any) -> Any:
        found = execute(self, statement, *arguments, **options)
        if broken in statement and ("INSERT" in statement or "UPDATE" in statement):
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(triggering.Transaction, "execute", dying)
        with pytest.raises(KeyboardInterrupt):
            tick(driver)
    assert (runs(driver), fires(driver)) == ([], [])
    assert tick(driver) == 1
    assert len(runs(driver)) == 1


def test_a_pipeline_that_cannot_run_is_noted_and_the_schedule_goes_on(
    driver: RunDriver, clock: Clock
) -> None:
    put(driver)
    with driver.database.transaction() as tx:
        remove_task(tx, driver.tenant, "noop")
    assert tick(driver, clock, 65 * timedelta(seconds=1)) == 1
    (fire,) = fires(driver)
    assert (fire.outcome, fire.error_code, fire.run_id) == ("failed", "CONFLICT", None)
    assert schedule(driver).last_error_code == "CONFLICT"
    assert "noop" in schedule(driver).last_error
    assert schedule(driver).next_fire_at > driver.database.now()
    assert runs(driver) == []


def test_during_maintenance_nothing_starts_and_then_the_missed_policy_decides(
    driver: RunDriver, clock: Clock
) -> None:
    for policy in ("skip", "one", "all"):
        put(driver, policy, missed=policy)
    driver.database.run(lambda tx: maintenance_mode.request(tx, "a new disk"))
    assert tick(driver, clock, timedelta(minutes=5, seconds=30)) == 0
    driver.database.run(lambda tx: maintenance_mode.leave(tx, None))
    tick(driver)
    assert outcomes(driver, "skip")[0] == "skipped"
    assert outcomes(driver, "one") == ["fired"]
    assert outcomes(driver, "all") == ["fired"] * 5


def test_the_tick_is_told_that_nothing_is_due(driver: RunDriver) -> None:
    put(driver)
    assert due_chores(driver.database, "schedules") == set()
    with driver.database.transaction() as tx:
        tx.execute("UPDATE schedules SET next_fire_at = now()")
    assert due_chores(driver.database, "schedules") == {"schedules"}


def test_tenants_take_turns(driver: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BATCH", 2)
    for number in range(5):
        put(driver, f"s{number}")
    neighbour = RunDriver(driver.database)
    neighbour.store({"a": []}, id="files")
    put(neighbour, "theirs")
    tick(driver, clock, 65 * timedelta(seconds=1))
    assert outcomes(driver, "theirs") == ["fired"]


def test_many_due_times_are_written_in_parts(
    driver: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_runs, "MAX_BATCH_TASK_RUNS", 2)
    put(driver, missed="all")
    assert tick(driver, clock, timedelta(minutes=5, seconds=30)) == 5
    times = {each.id: each.metadata["scheduledAt"] for each in runs(driver)}
    assert [times[each.run_id] for each in fires(driver)] == [
        iso(each.scheduled_at) for each in fires(driver)
    ]


# --- overlap ----------------------------------------------------------------------------------------------


def test_a_due_time_is_skipped_while_a_run_is_open(driver: RunDriver, clock: Clock) -> None:
    put(driver, overlap="skip")
    for _ in range(2):
        tick(driver, clock, 61 * timedelta(seconds=1))
    assert outcomes(driver) == ["fired", "skipped"]
    end(driver, runs(driver)[0].id)
    tick(driver, clock, 61 * timedelta(seconds=1))
    assert outcomes(driver) == ["fired", "skipped", "fired"]


def test_a_due_time_waits_for_the_end_of_the_run_before_it(driver: RunDriver, clock: Clock) -> None:
    put(driver, overlap="queue", jitter_ms=500)
    for _ in range(3):
        tick(driver, clock, 61 * timedelta(seconds=1))
    assert outcomes(driver) == ["fired", "waiting", "skipped"]
    assert tick(driver) == 0
    before, reason = schedule(driver), fires(driver)[1].reason
    end(driver, runs(driver)[0].id)
    assert tick(driver) == 1
    assert outcomes(driver) == ["fired", "fired", "skipped"]
    assert len(runs(driver)) == 2
    after = schedule(driver)
    assert (after.next_scheduled_at, after.next_fire_at) == (before.next_scheduled_at, before.next_fire_at)
    assert fires(driver)[1].reason == reason is not None
    assert after.last_fire_at > before.last_fire_at


def test_a_time_that_waited_and_cannot_start_is_logged_and_is_the_last_error(
    driver: RunDriver, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    put(driver, overlap="queue")
    for _ in range(2):
        tick(driver, clock, 61 * timedelta(seconds=1))
    driver.store({"a": []}, id="files", inputSchema=NEEDS_A_NAME)
    end(driver, runs(driver)[0].id)
    assert tick(driver) == 1
    assert outcomes(driver) == ["fired", "failed"]
    assert "schedule.failed" in [each.message for each in caplog.records]
    assert schedule(driver).last_error_code == "INPUT_VALIDATION_FAILED"
    driver.store({"a": []}, id="files")
    tick(driver, clock, 61 * timedelta(seconds=1))
    assert schedule(driver).last_error_code is None


def test_the_newer_run_cancels_the_older_one(driver: RunDriver, clock: Clock) -> None:
    put(driver, overlap="cancel-old")
    for _ in range(2):
        tick(driver, clock, 61 * timedelta(seconds=1))
    assert [each.status for each in runs(driver)] == ["cancelled", "running"]
    assert tick(driver) == 0


def end(driver: RunDriver, run_id: Any) -> None:
    with driver.database.transaction() as tx:
        end_run(tx, run_id)


# --- storing ----------------------------------------------------------------------------------------------


def test_the_same_times_keep_the_next_due_time_and_others_do_not(driver: RunDriver, clock: Clock) -> None:
    put(driver)
    before = schedule(driver).next_fire_at
    clock.ahead += timedelta(minutes=2)
    put(driver, missed="all")
    assert schedule(driver).next_fire_at == before
    put(driver, every_ms=120_000)
    assert schedule(driver).next_fire_at > driver.database.now()


def test_a_pause_lasts_and_what_passed_meanwhile_was_not_missed(driver: RunDriver, clock: Clock) -> None:
    put(driver, missed="all")
    driver.database.run(lambda tx: storing.pause(tx, driver.tenant, "nightly"))
    put(driver, missed="all", input={"a": 1})
    assert tick(driver, clock, timedelta(minutes=10)) == 0
    driver.database.run(lambda tx: storing.resume(tx, driver.tenant, "nightly"))
    assert tick(driver) == 0
    assert tick(driver, clock, 61 * timedelta(seconds=1)) == 1


def test_an_unknown_pipeline_a_wrong_input_and_a_time_in_the_past_are_refused(driver: RunDriver) -> None:
    schema = {
        "fields": [{"name": "folder", "type": "string", "label": "Folder", "required": True}],
        "strict": True,
    }
    driver.store({"a": []}, id="strict", inputSchema=schema)
    with pytest.raises(NotFound, match="unknown-one"):
        put(driver, pipeline_id="unknown-one")
    with pytest.raises(InputValidationFailed) as wrong:
        put(driver, pipeline_id="strict", input={"foldr": 1})
    assert {each.field for each in wrong.value.errors} == {"input.foldr", "input.folder"}
    with pytest.raises(InvalidInput, match="no time"):
        put(driver, every_ms=None, at=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidInput, match="at most"):
        put(driver, input="x" * 40_000)
    assert driver.rows("SELECT 1 FROM schedules") == []


def test_a_single_time_starts_once_and_may_be_stored_again(driver: RunDriver, clock: Clock) -> None:
    at = driver.database.now() + MINUTE
    put(driver, every_ms=None, at=at)
    assert tick(driver, clock, 90 * timedelta(seconds=1)) == 1
    assert schedule(driver).next_fire_at is None
    put(driver, every_ms=None, at=at)
    assert tick(driver) == 0


def test_jitter_delays_but_does_not_change_what_is_due(driver: RunDriver, clock: Clock) -> None:
    put(driver, jitter_ms=50_000)
    found = schedule(driver)
    assert timedelta() <= found.next_fire_at - found.next_scheduled_at < timedelta(seconds=50)
    tick(driver, clock, timedelta(seconds=111))
    assert fires(driver)[0].scheduled_at == found.next_scheduled_at


# --- by hand ----------------------------------------------------------------------------------------------


def test_a_schedule_starts_at_once_even_while_it_is_paused(driver: RunDriver) -> None:
    put(driver, paused=True)
    at, run = driver.database.run(lambda tx: by_hand.fire_now(tx, VALUES, driver.tenant, "nightly"))
    (fire,) = fires(driver)
    assert (fire.kind, fire.scheduled_at, fire.run_id) == ("manual", at, run.id)


def test_a_backfill_starts_each_time_once_and_a_dry_one_nothing(driver: RunDriver, clock: Clock) -> None:
    put(driver)
    tick(driver, clock, 61 * timedelta(seconds=1))
    end_at = driver.database.now()

    def backfill(**options: Any) -> by_hand.Backfill:
        begin = end_at - timedelta(minutes=150)
        return by_hand.backfill(driver.database, VALUES, driver.tenant, "nightly", begin, end_at, **options)

    dry = backfill(is_dry=True)
    assert (len(dry.times), dry.known, dry.runs, len(runs(driver))) == (150, 1, {}, 1)
    first = backfill(limit=120)
    assert (len(first.runs), first.next_from) == (120, dry.times[120])
    second = backfill()
    assert (len(second.runs), second.known, second.next_from) == (29, 121, None)
    assert len(runs(driver)) == 150
    with pytest.raises(InvalidInput, match="future"):
        by_hand.backfill(
            driver.database, VALUES, driver.tenant, "nightly", end_at, end_at + timedelta(days=400)
        )


def test_a_schedule_goes_with_its_fires_and_its_runs_stay(driver: RunDriver) -> None:
    put(driver)
    driver.database.run(lambda tx: by_hand.fire_now(tx, VALUES, driver.tenant, "nightly"))
    driver.database.run(lambda tx: storing.delete(tx, driver.tenant, "nightly"))
    assert (fires(driver), len(runs(driver))) == ([], 1)
    with pytest.raises(NotFound):
        driver.database.run(lambda tx: storing.delete(tx, driver.tenant, "nightly"))
