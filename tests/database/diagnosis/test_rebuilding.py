"""A run as it was at one of its events."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.run_driver import PERMANENT, RunDriver, finish_task_run

from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.diagnosis import rebuilding
from pipeweave.orchestrator.documents.run_questions import RunAt
from pipeweave.orchestrator.store.database import Database, to_json


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def at(driver: RunDriver, run_id: UUID, seq: int) -> dict[str, Any]:
    with driver.database.reading() as tx:
        found = rebuilding.rebuilt_at(tx, driver.tenant, run_id, seq)
    RunAt.model_validate_json(to_json(found))
    return found


def events(driver: RunDriver, run_id: UUID) -> list[Any]:
    return driver.rows("SELECT seq, type FROM events WHERE run_id = :id ORDER BY seq", id=run_id)


def test_a_run_is_rebuilt_event_by_event(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a", output=1)
    driver.finish(run_id, "b", failure=PERMANENT)
    told = events(driver, run_id)
    assert at(driver, run_id, told[0].seq - 1)["status"] is None
    started = next(each.seq for each in told if each.type == "task_run.started")
    found = at(driver, run_id, started)
    assert (found["status"], [each["status"] for each in found["steps"]]) == (
        "running",
        ["running", "pending"],
    )
    assert found["events"] == [each.seq for each in told].index(started) + 1
    last = at(driver, run_id, told[-1].seq)
    assert (last["status"], last["counts"]) == ("failed", {"completed": 1, "failed": 1})
    assert last["steps"][1]["errorCode"] == "BOOM"


def test_the_items_of_a_map_are_counted(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []}, maps={"a": "${input.list}"}, input={"list": [1, 2, 3]})
    with driver.database.transaction() as tx:
        finish_task_run(tx, run_id, 3, output=1)
    found = at(driver, run_id, events(driver, run_id)[-1].seq)
    assert found["steps"][0]["items"] == {"queued": 2, "completed": 1}


def test_the_run_of_somebody_else_and_too_long_a_history_are_refused(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.reading() as tx, pytest.raises(NotFound):
        rebuilding.rebuilt_at(tx, "nobody", run_id, 2**40)
    monkeypatch.setattr(rebuilding, "MOST_EVENTS", 1)
    with pytest.raises(LimitExceeded):
        at(driver, run_id, 2**40)
