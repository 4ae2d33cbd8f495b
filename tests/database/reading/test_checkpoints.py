"""Checkpoints and changes of the state are views of the event log, and agree with it."""

from __future__ import annotations

import pytest
from support.run_driver import PERMANENT, RunDriver

from pipeweave.errors import NotFound
from pipeweave.orchestrator.diagnosis.rebuilding import rebuilt_at
from pipeweave.orchestrator.reading import PageRequest, checkpoint, checkpoints, run_events
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def test_a_checkpoint_is_where_a_step_or_the_run_has_come_to_rest(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a")
    driver.finish(run_id, "b", failure=PERMANENT)
    with driver.database.reading() as tx:
        page = checkpoints(tx, driver.tenant, run_id, PageRequest())
    assert [each["event"] for each in page["items"]] == [
        "run.created",
        "task_run.completed",
        "task_run.failed",
        "run.failed",
    ]
    assert page["nextCursor"] is None
    assert [each["checkpointId"] for each in page["items"]] == [str(each["seq"]) for each in page["items"]]


def test_checkpoints_come_page_by_page(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a", "b")
    with driver.database.reading() as tx:
        whole = checkpoints(tx, driver.tenant, run_id, PageRequest())["items"]
        first = checkpoints(tx, driver.tenant, run_id, PageRequest(2))
        rest = checkpoints(tx, driver.tenant, run_id, PageRequest(100, first["nextCursor"]))
    assert [*first["items"], *rest["items"]] == whole
    assert len(first["items"]) == 2


def test_the_state_of_a_checkpoint_is_what_the_events_up_to_it_give(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a")
    with driver.database.reading() as tx:
        last = checkpoints(tx, driver.tenant, run_id, PageRequest())["items"][-1]
        state = rebuilt_at(tx, driver.tenant, run_id, last["seq"])
        assert checkpoint(tx, driver.tenant, run_id, last["seq"]) == last
    assert {each["id"]: each["status"] for each in state["steps"]}["a"] == "completed"


def test_an_event_that_is_no_checkpoint_is_not_found_as_one(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a")
    [started] = driver.events(run_id, "task_run.started")
    with driver.database.reading() as tx:
        for id, seq in ((run_id, started.seq), (run_id, 10**12)):
            with pytest.raises(NotFound, match="has no checkpoint"):
                checkpoint(tx, driver.tenant, id, seq)
        with pytest.raises(NotFound):
            checkpoint(tx, "another", run_id, started.seq)
        with pytest.raises(NotFound):
            checkpoints(tx, "another", run_id, PageRequest())


def test_every_event_that_moves_something_is_told_as_a_change_of_the_state(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a")
    with driver.database.reading() as tx:
        events = run_events(tx, driver.tenant, run_id, PageRequest())["items"]
        changes = run_events(tx, driver.tenant, run_id, PageRequest(), type="state_updated")["items"]
    assert {each["type"] for each in changes} == {"state_updated"}
    assert [(each["seq"], each["data"]["event"]) for each in changes] == [
        (each["seq"], each["type"]) for each in events
    ]
    assert all(each["data"]["stateSnapshot"].endswith(f"/at?seq={each['seq']}") for each in changes)
