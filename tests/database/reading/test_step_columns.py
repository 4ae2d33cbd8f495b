"""The states of a run's steps as columns: all of them, then what has changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.inline_worker import InlineWorker
from support.plans import parts_of, plans_of
from support.run_driver import PERMANENT, RunDriver
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.domain.states import STATUS_LETTERS, TaskStatus
from pipeweave.orchestrator.reading import step_columns as reading
from pipeweave.orchestrator.reading.step_columns import step_states
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits import repairing
from pipeweave.spec.wait_steps import Approval

FAN = {"a": [], **{f"b{at}": ["a"] for at in range(200)}}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def states(driver: RunDriver, run_id: UUID, after: str | None = None) -> dict[str, Any]:
    with driver.database.reading() as tx:
        return step_states(tx, driver.tenant, run_id, after)


def test_every_status_has_a_letter_of_its_own() -> None:
    assert set(STATUS_LETTERS) == {each.value for each in TaskStatus}
    assert len(set(STATUS_LETTERS.values())) == len(STATUS_LETTERS)


def test_all_steps_are_columns_by_ordinal(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    driver.finish(run_id, "a", "b")
    found = states(driver, run_id)
    assert (found["isWhole"], found["ordinals"], found["statuses"]) == (True, [1, 2, 3, 4], "ccqp")
    assert (found["attempts"], found["items"]) == ([1, 1, 1, 1], {})
    assert all(each >= 0 for each in found["finishedMs"][:2])
    assert found["finishedMs"][2:] == [None, None]


def test_after_a_cursor_come_only_the_steps_that_changed(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["b"], "d": ["c"]})
    first = states(driver, run_id)
    driver.finish(run_id, "a")
    second = states(driver, run_id, first["cursor"])
    assert (second["isWhole"], second["ordinals"], second["statuses"]) == (False, [1, 2], "cq")
    driver.finish(run_id, "b", failure=PERMANENT)
    last = states(driver, run_id, second["cursor"])
    assert last["status"] == "failed"
    assert dict(zip(last["ordinals"], last["statuses"], strict=True))[2] == "f"
    assert states(driver, run_id, last["cursor"])["ordinals"] == []


def test_a_wait_that_was_given_another_end_is_among_what_has_changed(driver: RunDriver) -> None:
    runs = WaitingRuns(driver)
    run_id = runs.begin({"ok": Approval("Ship?", timeout_ms=60_000)})
    first = states(driver, run_id)
    with driver.database.transaction() as tx:
        until = repairing.extend(tx, driver.tenant, runs.task_run(run_id, "ok"), timedelta(days=2), by="ann")
    second = states(driver, run_id, first["cursor"])
    assert (second["ordinals"], second["waits"]["2"]["until"]) == ([2], iso(until))
    assert second["waits"] != first["waits"]
    [event] = driver.events(run_id, "task_run.extended")
    assert event.data["by"] == "ann"
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []


def test_changes_applied_to_the_first_answer_give_what_the_whole_says(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    answer = states(driver, run_id)
    known = dict(zip(answer["ordinals"], answer["statuses"], strict=True))
    for step in "abcd":
        driver.finish(run_id, step)
        answer = states(driver, run_id, answer["cursor"])
        known |= dict(zip(answer["ordinals"], answer["statuses"], strict=True))
        assert "".join(known.values()) == states(driver, run_id)["statuses"]
    assert (answer["status"], set(known.values())) == ("completed", {"c"})


def test_after_too_many_events_all_steps_come(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    first = states(driver, run_id)
    driver.finish(run_id, "a")
    monkeypatch.setattr(reading, "MOST_EVENTS", 0)
    found = states(driver, run_id, first["cursor"])
    assert (found["isWhole"], found["statuses"]) == (True, "cq")


def test_the_items_of_a_run_that_is_over_are_counted_at_once(driver: RunDriver) -> None:
    worker = InlineWorker(driver)
    run_id = driver.begin({"m": []}, maps={"m": [1, 2, 3]})
    first = states(driver, run_id)
    assert first["items"]["1"]["total"] == 3
    worker.consume_all()
    assert states(driver, run_id)["items"] == {"1": {"total": 3, "statuses": {"c": 3}}}, "it is over"
    again = states(driver, run_id, states(driver, run_id)["cursor"])
    assert (again["items"], again["status"]) == ({}, "completed")


def test_counts_that_rest_are_told_later(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = driver.begin({"a": [], "m": [], "z": ["a", "m"]}, maps={"m": [1, 2]})
    first = states(driver, run_id)
    driver.finish(run_id, "a")
    second = states(driver, run_id, first["cursor"])
    assert second["items"] == {}, "counted a moment ago"
    monkeypatch.setattr(reading.CountedItems, "rests", False)
    assert states(driver, run_id, second["cursor"])["items"]["2"]["total"] == 2


def test_a_standalone_task_is_one_step(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        requests = [QueueRequest("noop")]
        [queued] = standalone_tasks.enqueue(tx, driver.values, driver.tenant, requests)
    found = states(driver, ids.run_id_of(queued.task_run_id))
    assert (found["ordinals"], found["statuses"]) == ([1], "q")


@pytest.mark.parametrize("after", ["x", "WyJldmVudHMiLDFd", "WyJzdGVwcyIsMV0"])
def test_a_wrong_cursor_is_refused(driver: RunDriver, after: str) -> None:
    run_id = driver.begin({"a": []})
    with pytest.raises(InvalidInput, match="after is not a cursor"):
        states(driver, run_id, after)


def test_another_tenant_sees_nothing(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    other = RunDriver(driver.database)
    with pytest.raises(NotFound):
        states(other, run_id)


def test_what_has_changed_is_read_by_its_key(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = driver.begin(FAN)
    driver.finish(run_id, "a", *(f"b{at}" for at in range(150)))
    cursor = states(driver, run_id)["cursor"]
    driver.finish(run_id, "b160")
    with driver.database.reading() as tx:
        plans = plans_of(tx, lambda: step_states(tx, driver.tenant, run_id, cursor), monkeypatch)
    parts = [part for plan in plans for part in parts_of(plan) if "Relation Name" in part]
    of_steps = [each for each in parts if each["Relation Name"].startswith("task_runs")]
    assert [(each["Node Type"], each["Actual Rows"]) for each in of_steps] == [("Index Scan", 1)]
