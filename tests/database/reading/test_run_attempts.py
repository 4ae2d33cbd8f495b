"""The attempts of a run: those that ended badly, and the present or last one of each task run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, claim, finish_next_attempt

from pipeweave import ids
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.reading import PageRequest, run_attempts
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    """a failed and then completed; b failed twice for good; c never began."""
    id = driver.begin({"a": [], "b": [], "c": ["a", "b"]}, failureMode="continue")
    driver.finish(id, "a", "b", failure=TRANSIENT)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, id, 1)
        finish_next_attempt(tx, id, 2, failure=PERMANENT)
    return id


def attempts(driver: RunDriver, run_id: UUID, limit: int = 50, **filters: Any) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    cursor = None
    while True:
        with driver.database.reading() as tx:
            page = run_attempts(tx, driver.tenant, run_id, PageRequest(limit, cursor), **filters)
        found += [(each["stepId"], each["number"], each["status"]) for each in page["items"]]
        if (cursor := page["nextCursor"]) is None:
            return found


def test_every_attempt_that_began_is_listed_once(driver: RunDriver, run_id: UUID) -> None:
    expected = [("a", 1, "failed"), ("a", 2, "completed"), ("b", 1, "failed"), ("b", 2, "failed")]
    assert attempts(driver, run_id) == expected
    assert attempts(driver, run_id, 1) == expected, "page by page"
    assert attempts(driver, run_id, 3) == expected


def test_attempts_are_filtered(driver: RunDriver, run_id: UUID) -> None:
    assert attempts(driver, run_id, status="completed") == [("a", 2, "completed")]
    assert attempts(driver, run_id, 1, step_id="b") == [("b", 1, "failed"), ("b", 2, "failed")]
    assert attempts(driver, run_id, step_id="c") == []


def test_an_attempt_that_runs_is_listed_without_an_end(driver: RunDriver) -> None:
    id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claim(tx, id, 1)
    with driver.database.reading() as tx:
        [one] = run_attempts(tx, driver.tenant, id, PageRequest())["items"]
    assert (one["status"], one["finishedAt"], one["error"]) == ("running", None, None)
    assert one["taskRunId"] == ids.show(ids.TASK_RUN, ids.task_run_id(id, 1))


def test_an_error_comes_without_its_traceback(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.reading() as tx:
        items = run_attempts(tx, driver.tenant, run_id, PageRequest())["items"]
    assert items[0]["error"]["message"] == "it broke for now"
    assert not any("traceback" in (each["error"] or {}) for each in items)


def test_the_run_of_somebody_else_and_a_foreign_cursor_are_refused(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.reading() as tx:
        with pytest.raises(NotFound):
            run_attempts(tx, "nobody", run_id, PageRequest())
        with pytest.raises(InvalidInput):
            run_attempts(tx, driver.tenant, run_id, PageRequest(1, "bm9uZQ"))
