"""A run verified for a request: equal, or the differences, within bounds."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.diagnosis import run_verification
from pipeweave.orchestrator.documents.run_questions import RunVerification
from pipeweave.orchestrator.store.database import Database, to_json


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def verified(driver: RunDriver, run_id: UUID) -> dict[str, Any]:
    with driver.database.reading() as tx:
        found = run_verification.verified(tx, driver.tenant, run_id)
    RunVerification.model_validate_json(to_json(found))
    return found


def test_an_open_run_and_an_ended_one_agree_with_their_events(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    assert verified(driver, run_id)["isEqual"]
    driver.finish(run_id, "a", "b")
    found = verified(driver, run_id)
    assert (found["isEqual"], found["differences"], found["taskRuns"]) == (True, [], 2)
    assert found["events"] > 4


def test_a_row_that_was_changed_by_hand_is_found(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    driver.finish(run_id, "a", output=1)
    driver.rows("UPDATE task_runs SET output_hash = 'x' WHERE run_id = :id RETURNING 1", id=run_id)
    found = verified(driver, run_id)
    assert not found["isEqual"]
    [one] = found["differences"]
    assert (one["field"], one["stored"]) == ("output_hash", "x")
    assert one["taskRunId"] == ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 1))


def test_too_many_events_or_task_runs_are_left_to_the_command(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    monkeypatch.setattr(run_verification, "MOST_EVENTS", 1)
    with pytest.raises(LimitExceeded, match="more than 1 events") as refused:
        verified(driver, run_id)
    assert f"pipeweave verify {ids.show(ids.RUN, run_id)}" in str(refused.value.hint)
    monkeypatch.setattr(run_verification, "MOST_EVENTS", 100)
    monkeypatch.setattr(run_verification, "MOST_TASK_RUNS", 1)
    with pytest.raises(LimitExceeded, match="more than 1 task runs"):
        verified(driver, run_id)


def test_the_run_of_somebody_else_is_not_verified(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.reading() as tx, pytest.raises(NotFound):
        run_verification.verified(tx, "nobody", run_id)
