"""Events say why something changed, and who wanted it or did it, where their type does not say it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.run_driver import PERMANENT, RunDriver, claim, header, settle

from pipeweave import ids
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.domain.triggered_by import SCHEDULE, TriggeredBy
from pipeweave.orchestrator.reading import PageRequest, run_events
from pipeweave.orchestrator.runs import pausing, standalone_tasks, triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def shown(driver: RunDriver, run_id: UUID) -> list[dict[str, Any]]:
    with driver.database.reading() as tx:
        found: list[dict[str, Any]] = run_events(tx, driver.tenant, run_id, PageRequest())["items"]
    return found


def last(driver: RunDriver, run_id: UUID, type: str) -> dict[str, Any]:
    return next(each for each in reversed(shown(driver, run_id)) if each["type"] == type)


def triggered(driver: RunDriver, by: TriggeredBy) -> UUID:
    with driver.database.transaction() as tx:
        return triggering.trigger(
            tx, driver.values, driver.tenant, StartRequest("driven", triggered_by=by)
        ).id


def test_the_first_event_says_who_and_what_began_the_run(driver: RunDriver) -> None:
    driver.store({"a": []})
    requested = last(driver, triggered(driver, TriggeredBy(actor="ci")), "run.created")
    assert requested["actor"] == "ci"
    assert "triggeredBy" not in requested["data"], "most runs are begun by requests"
    fired = last(driver, triggered(driver, TriggeredBy(SCHEDULE, "nightly")), "run.created")
    assert fired["actor"] is None
    assert (fired["data"]["triggeredBy"], fired["data"]["triggeredById"]) == ("schedule", "nightly")


def test_all_events_of_a_run_have_the_trace_id_of_its_trigger(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    assert {each["traceId"] for each in shown(driver, run_id)} == {run_id.hex}
    given = triggered(driver, TriggeredBy(traceparent=f"00-{TRACE}-00f067aa0ba902b7-01"))
    driver.finish(given, "a")
    assert {each["traceId"] for each in shown(driver, given)} == {TRACE}
    with driver.database.transaction() as tx:
        assert header(tx, given).trace_id == TRACE


def test_a_worker_is_the_actor_of_what_it_starts(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a")
    assert last(driver, run_id, "task_run.started")["actor"] == "w1"
    assert last(driver, run_id, "task_runs.queued")["actor"] is None


def test_a_cancel_names_who_wanted_it(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id, reason="wrong input", by="ops")
    event = last(driver, run_id, "run.cancelled")
    assert (event["actor"], event["data"]["error"]) == ("ops", "wrong input")
    assert last(driver, run_id, "task_runs.cancelled")["data"]["errorCode"] == "CANCELLED"


def test_the_cancel_of_a_standalone_task_names_who_wanted_it(driver: RunDriver) -> None:
    request = standalone_tasks.QueueRequest("noop")
    with driver.database.transaction() as tx:
        [queued] = standalone_tasks.enqueue(tx, driver.values, driver.tenant, [request])
    with driver.database.transaction() as tx:
        triggering.cancel_task(tx, driver.tenant, queued.task_run_id, by="ops")
    [event] = driver.events(ids.run_id_of(queued.task_run_id), "run.cancelled")
    assert event.data["by"] == "ops"


def test_a_run_that_fails_names_the_task_run(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a", failure=PERMANENT)
    failed = last(driver, run_id, "run.failed")["data"]
    assert failed["errorCode"] == "STEP_FAILED"
    assert failed["taskRunId"] == ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 1))


def test_the_retry_of_a_dead_letter_names_it_and_who_wanted_it(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a", failure=PERMANENT)
    [letter] = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id", id=run_id)
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, letter.id, by="ops")
    assert last(driver, run_id, "run.reopened")["actor"] == "ops"
    reopened = last(driver, run_id, "task_run.reopened")
    assert reopened["actor"] == "ops"
    assert reopened["data"] == {
        "nextAttempt": 2,
        "deadLetter": ids.show(ids.DEAD_LETTER, letter.id),
        "by": "ops",
    }


def test_what_is_held_back_says_whether_a_limit_or_a_pause_holds_it(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"]}, tasks={"c": "limited"})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id, by="ops")
    with driver.database.transaction() as tx:
        settle(tx, started)
    assert last(driver, run_id, "run.paused")["actor"] == "ops"
    causes = {
        str(each["data"]["ordinals"]): each["data"]["cause"]
        for each in shown(driver, run_id)
        if each["type"] == "task_runs.ready"
    }
    assert causes == {"[[2, 2]]": "pause", "[[3, 3]]": "limit"}


def test_what_waits_for_a_limit_from_the_start_says_so(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []}, tasks={"a": "limited"})
    assert last(driver, run_id, "task_runs.ready")["data"] == {"ordinals": [[1, 1]], "cause": "limit"}
    assert last(driver, run_id, "task_runs.queued")["data"] == {"ordinals": [[1, 1]], "from": "ready"}


def test_items_that_are_held_say_why(driver: RunDriver) -> None:
    run_id = driver.begin(
        {"a": []}, tasks={"a": "limited"}, maps={"a": "${input.list}"}, input={"list": [1, 2]}
    )
    assert last(driver, run_id, "task_runs.ready")["data"] == {"ordinals": [[2, 3]], "cause": "limit"}
