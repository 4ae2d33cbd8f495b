"""Triggers of events: each event fires once, by any number of ticks, whatever dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.concurrency import call_concurrently
from support.due_chores import due_chores
from support.factories import remove_task
from support.run_driver import RunDriver, finish_task_run
from support.stored_values import VALUES

from pipeweave.orchestrator.diagnosis import check_event_log
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.domain import Month
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.feed import feed
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.reading import trigger
from pipeweave.orchestrator.retention import Policy, drop_months, partitions
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.starts import event_consumer
from pipeweave.orchestrator.starts.fires import MAX_DEPTH
from pipeweave.orchestrator.starts.triggers import TriggerSpec, event_starts, storing
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings

if TYPE_CHECKING:
    from pipeweave.storage import Storage

FAILED = Failure("BROKEN", "it broke", "Broken", retryable=False)


@pytest.fixture
def driver(isolated_driver: RunDriver) -> Iterator[RunDriver]:
    """Alone in its database, because the chores look at all tenants."""
    isolated_driver.store({"a": []}, id="files")
    isolated_driver.store({"b": []}, id="after")
    yield isolated_driver


def put(driver: RunDriver, id: str = "next", **options: Any) -> None:
    given = {"kind": "event", "pipeline_id": "after", "event": "pipeline-completed", **options}
    driver.database.run(lambda tx: storing.put(tx, None, driver.tenant, id, TriggerSpec(**given)))


def tick(driver: RunDriver, database: Database | None = None) -> int:
    """Read what is new, and start what it fires; how many fires were noted."""
    found = event_consumer.run_once(database or driver.database)
    event_starts.run_once(database or driver.database, VALUES)
    return found


def ended(driver: RunDriver, pipeline: str = "files", step: str = "a", **ending: Any) -> Any:
    run = driver.trigger(pipeline, {"country": "DE"})
    driver.finish(run, step, **ending)
    return run


def fires(driver: RunDriver, id: str = "next") -> list[Any]:
    return driver.rows("SELECT * FROM event_fires WHERE trigger_id = :id ORDER BY id", id=id)


def runs(driver: RunDriver, pipeline: str = "after") -> list[Any]:
    return driver.rows("SELECT * FROM runs WHERE pipeline_id = :id ORDER BY id", id=pipeline)


def shown(driver: RunDriver, id: str = "next") -> Any:
    with driver.database.transaction() as tx:
        return trigger(tx, driver.tenant, id)


def test_the_end_of_a_run_starts_another_with_what_happened(driver: RunDriver) -> None:
    before = ended(driver)
    put(driver, filter={"pipelineId": "files", "status": "completed", "output.country": "DE"})
    run = ended(driver, output={"country": "DE"})
    assert tick(driver) == 1
    (started,) = runs(driver)
    event = started.input["event"]
    assert event["runId"] == triggering.ids.show("prun", run) != triggering.ids.show("prun", before)
    assert (event["status"], event["output"], event["input"]) == ("completed",) + ({"country": "DE"},) * 2
    assert (started.triggered_kind, started.triggered_id) == ("event", "next")
    assert started.triggered_actor == event["runId"]
    assert tick(driver) == 0
    assert shown(driver)["lastFires"][0]["outcome"] == "fired"


def test_a_filter_chooses_by_pipeline_status_and_content(driver: RunDriver) -> None:
    put(driver, "failures", filter={"status": ["failed", "partial"], "error.stepId": "a"})
    put(driver, "others", filter={"pipelineId": "unknown"})
    put(driver, "german", filter={"output.country": "DE"}, input={"of": "${input.event.runId}"})
    run = ended(driver, failure=FAILED)
    ended(driver, output={"country": "FR"})
    ended(driver, output={"country": "DE"})
    cancelled = driver.trigger("files")
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, cancelled))
    assert tick(driver) == 2
    (failed,) = fires(driver, "failures")
    assert (failed.run_id, failed.event["error"]["code"]) == (run, "STEP_FAILED")
    assert (len(fires(driver, "german")), fires(driver, "others")) == (1, [])
    assert sorted(next(iter(each.input)) for each in runs(driver)) == ["event", "of"]


def test_a_task_fires_at_its_end_and_a_map_once(driver: RunDriver) -> None:
    driver.store({"m": [], "z": ["m"]}, id="mapped", maps={"m": [1, 2]})
    put(driver, "tasks", event="task-completed", filter={"taskId": "noop", "stepId": ["a", "m"]})
    ended(driver, output=7)
    run = driver.trigger("mapped")
    for ordinal in (3, 4):
        with driver.database.transaction() as tx:
            finish_task_run(tx, run, ordinal)
    assert tick(driver) == 2
    events = [each.event for each in fires(driver, "tasks")]
    assert [(each["stepId"], each["output"], each["status"]) for each in events] == [
        ("a", 7, "completed"),
        ("m", None, "completed"),
    ]
    ended(driver, failure=FAILED)
    assert tick(driver) == 1
    assert fires(driver, "tasks")[-1].event["error"]["code"] == "BROKEN"


def test_what_is_large_is_given_by_reference(driver: RunDriver) -> None:
    put(driver)
    ended(driver, output="x" * 40_000)
    tick(driver)
    event = runs(driver)[0].input["event"]
    assert event["output"] is None
    assert event["outputRefs"]["a"]["size"] > 40_000


def test_ticks_at_once_start_each_run_once(driver: RunDriver) -> None:
    put(driver)
    for _ in range(5):
        ended(driver)
    others = [Database(driver.database.url) for _ in range(2)]
    call_concurrently(*(lambda each=each: tick(driver, each) for each in others))
    tick(driver)
    for each in others:
        each.dispose()
    assert (len(runs(driver)), len(fires(driver))) == (5, 5)


@pytest.mark.parametrize(
    "broken", ["INSERT INTO event_fires", "UPDATE feed_consumers", "INSERT INTO runs", "UPDATE event_fires"]
)
def test_a_tick_that_dies_anywhere_leaves_nothing_half_done(
    driver: RunDriver, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(driver)
    ended(driver)
    execute = triggering.Transaction.execute

    def dying(self: Any, statement: str, *arguments: Any, **options: Any) -> Any:
        found = execute(self, statement, *arguments, **options)
        if broken in statement:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(triggering.Transaction, "execute", dying)
        with pytest.raises(KeyboardInterrupt):
            tick(driver)
    tick(driver)
    assert (len(runs(driver)), [each.outcome for each in fires(driver)]) == (1, ["fired"])


def test_an_event_that_commits_late_is_read(driver: RunDriver) -> None:
    """Its number is lower than that of one that was read before."""
    put(driver)
    late = driver.trigger("files")
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, late)
        ended(driver)
        assert tick(driver) == 1
    assert tick(driver) == 1
    assert {each.run_id for each in fires(driver)} >= {late}


def test_a_run_that_cannot_start_is_noted_and_the_others_go_on(driver: RunDriver) -> None:
    put(driver, "broken", input={"x": "${input.event.gone}"})
    put(driver)
    ended(driver)
    assert tick(driver) == 2
    assert shown(driver, "broken")["lastError"]["code"] == "INVALID_INPUT"
    assert [each.outcome for each in fires(driver, "broken") + fires(driver)] == ["failed", "fired"]
    with driver.database.transaction() as tx:
        remove_task(tx, driver.tenant, "noop")
    assert tick(driver) == 0


def test_runs_that_begin_each_other_end(driver: RunDriver) -> None:
    put(driver, allows_self=True, filter={"pipelineId": ["files", "after"]})
    run = ended(driver)
    for _ in range(MAX_DEPTH + 2):
        tick(driver)
        for each in runs(driver):
            if each.status == "running":
                driver.finish(each.id, "b")
    assert run
    assert len(runs(driver)) == MAX_DEPTH
    assert [each.reason for each in fires(driver)][-1] == "LOOP"


def test_runs_of_its_own_pipeline_do_not_fire_it(driver: RunDriver) -> None:
    put(driver)
    ended(driver, "after", "b")
    assert tick(driver) == 0


def test_nothing_starts_in_maintenance_and_later_it_does(driver: RunDriver) -> None:
    put(driver)
    ended(driver)
    driver.database.run(maintenance_mode.request)
    assert tick(driver) == 1
    assert runs(driver) == []
    driver.database.run(maintenance_mode.leave)
    tick(driver)
    assert len(runs(driver)) == 1


def test_what_happens_while_a_trigger_is_paused_does_not_fire_it(driver: RunDriver) -> None:
    put(driver)
    ended(driver)
    event_consumer.run_once(driver.database)
    driver.database.run(lambda tx: storing.pause(tx, driver.tenant, "next"))
    ended(driver)
    assert tick(driver) == 0
    assert [each.reason for each in fires(driver)] == ["paused"]
    ended(driver)
    driver.database.run(lambda tx: storing.resume(tx, driver.tenant, "next"))
    ended(driver)
    assert tick(driver) == 1
    driver.database.run(lambda tx: storing.delete(tx, driver.tenant, "next"))
    assert (tick(driver), fires(driver)) == (0, [])


def test_a_fire_of_a_trigger_that_was_deleted_meanwhile_is_skipped(driver: RunDriver) -> None:
    put(driver)
    ended(driver)
    event_consumer.run_once(driver.database)
    driver.rows("DELETE FROM triggers RETURNING id")
    event_starts.run_once(driver.database, VALUES)
    assert [each.reason for each in fires(driver)] == ["deleted"]


def test_without_triggers_there_is_nothing_to_do(driver: RunDriver) -> None:
    assert due_chores(driver.database, "events", "triggers") == set()
    put(driver)
    ended(driver)
    assert "events" in due_chores(driver.database, "events")
    event_consumer.run_once(driver.database)
    assert "triggers" in due_chores(driver.database, "triggers")


def test_an_idle_deployment_writes_nothing(driver: RunDriver) -> None:
    put(driver)
    ended(driver)
    tick(driver)
    tick(driver)
    place = driver.rows("SELECT xmin, before FROM feed_consumers WHERE name = 'triggers'")
    tick(driver)
    assert driver.rows("SELECT xmin, before FROM feed_consumers WHERE name = 'triggers'") == place


def test_many_events_are_read_in_batches(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_consumer, "BATCH", 2)
    put(driver)
    for _ in range(5):
        ended(driver)
    assert tick(driver) == 5
    assert len(runs(driver)) == 5


def test_a_trigger_that_is_stored_while_nothing_fires_misses_nothing(driver: RunDriver) -> None:
    put(driver)
    driver.database.run(lambda tx: storing.pause(tx, driver.tenant, "next"))
    spec = TriggerSpec("event", "after", event="pipeline-completed")
    with driver.database.transaction() as tx:
        storing.put(tx, None, driver.tenant, "other", spec)
        # Nobody sees it yet.
        assert event_consumer.run_once(driver.database) == 0
    ended(driver)
    assert tick(driver) == 1


def test_a_trigger_that_is_stored_while_a_batch_is_read_misses_nothing(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(driver, "tasks", event="task-completed", filter={"taskId": "none"})
    ended(driver)
    read_after, stored = feed.read_after, []

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        if not stored:
            stored.append(True)
            put(driver)
            ended(driver)
        return read_after(*arguments, **options)

    monkeypatch.setattr(feed, "read_after", meanwhile)
    tick(driver)
    tick(driver)
    assert len(fires(driver)) == 1


# --- history that was dropped, servers that changed -------------------------------------------------------


def drop(driver: RunDriver, month: Month) -> None:
    """Make a month, and drop it as retention does."""
    partitions.ensure_month(driver.database, month)
    policy = Policy(timedelta(days=365), is_archived=False)
    (dropped,) = drop_months.run_once(driver.database, cast("Storage", None), policy)
    assert dropped.outcome is drop_months.MonthOutcome.DROPPED


def test_what_ended_before_and_after_an_old_month_was_dropped_fires(driver: RunDriver) -> None:
    put(driver)
    assert tick(driver) == 0
    ended(driver)
    drop(driver, Month(2020, 1))
    ended(driver)
    assert tick(driver) == 2
    assert len(runs(driver)) == 2


def test_a_month_that_an_earlier_version_dropped_skips_nothing(driver: RunDriver) -> None:
    put(driver)
    assert tick(driver) == 0
    driver.rows("INSERT INTO dropped_months VALUES ('2025-01', now() + interval '1 s') RETURNING month")
    ended(driver)
    assert tick(driver) == 1


def test_what_still_exists_fires_after_unread_history_was_dropped_and_the_log_says_so_once(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    put(driver)
    assert tick(driver) == 0
    ended(driver)
    driver.rows("INSERT INTO dropped_months VALUES ('2025-01', now(), pg_current_xact_id()) RETURNING month")
    assert tick(driver) == 1
    driver.rows("UPDATE dropped_months SET dropped_at = now() - interval '1 min' RETURNING month")
    assert tick(driver) == 0
    said = [each for each in caplog.records if each.message == "triggers.events_missed"]
    assert [each.months for each in said] == [["2025-01"]]  # type: ignore[attr-defined]
    verdict = check_event_log.is_read(Settings(database_url=driver.database.url))
    assert (verdict.level, verdict.line) == (Severity.WARNING, "triggers missed events of 2025-01")


@pytest.mark.parametrize("before", ["CAST(CAST(before AS text) AS bigint) + 1000000000", "100"])
def test_what_ended_since_a_database_was_restored_elsewhere_fires_once(
    driver: RunDriver, caplog: pytest.LogCaptureFixture, before: str
) -> None:
    """The place has numbers of another server, which are higher or lower than those of this one."""
    put(driver)
    restored = f"UPDATE feed_consumers SET server = 'other', before = CAST(CAST({before} AS text) AS xid8)"
    driver.rows(f"{restored} RETURNING 1")
    ended(driver)
    assert tick(driver) == 1
    assert "triggers.events_missed" in [each.message for each in caplog.records]
    ended(driver)
    assert tick(driver) == 1
    assert tick(driver) == 0
