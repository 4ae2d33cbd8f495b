"""The events of a run stand in the order of cause and effect, also those that one transaction writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from support.run_driver import RunDriver, claim, header

from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine import fast_path_sql
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.runs import deadlines, triggering
from pipeweave.orchestrator.store.database import Database

BROKEN = failure.Failure("BROKEN", "it broke", "Broken", retryable=False)


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    yield RunDriver(database)


def types(driver: RunDriver, run_id: UUID) -> list[str]:
    return [
        row.type for row in driver.rows("SELECT type FROM events WHERE run_id = :id ORDER BY seq", id=run_id)
    ]


def complete(driver: RunDriver, run_id: UUID, ordinal: int) -> None:
    """Complete a queued step as a worker does, who goes on with its successor."""
    with driver.database.transaction() as tx:
        task_run, run = claim(tx, run_id, ordinal), header(tx, run_id)
    assert task_run is not None
    completion = Completion(task_run, driver.values.keep(1))
    claimant = Claimant("w1", task_run.queue)
    Turn(run, [completion], task_run.queue, max_retry_delay_ms=None, claimant=claimant, worker="w1").apply(
        driver.database
    )


STATEMENTS = (
    fast_path_sql.GO_ON,
    fast_path_sql.GO_ON_TO_JOINS,
    fast_path_sql.LAST,
    fast_path_sql.LAST_OF_SEVERAL,
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_one_insert_writes_the_events_of_a_statement(statement: str) -> None:
    """Of two, PostgreSQL may run the second first."""
    assert statement.count("INSERT INTO events") == 1


def test_a_step_completes_before_its_successor_starts(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    complete(driver, run_id, 1)
    assert types(driver, run_id)[-2:] == ["task_run.completed", "task_run.started"]


def test_a_step_completes_before_its_successors_are_queued(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    complete(driver, run_id, 1)
    assert types(driver, run_id)[-3] == "task_run.completed"


def test_a_run_completes_after_its_only_last_step(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    complete(driver, run_id, 1)
    assert types(driver, run_id)[-2:] == ["task_run.completed", "run.completed"]


def test_a_run_completes_after_the_last_of_its_last_steps(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": []})
    complete(driver, run_id, 1)
    complete(driver, run_id, 2)
    assert types(driver, run_id)[-2:] == ["task_run.completed", "run.completed"]


def test_a_run_that_counts_its_failures_ends_after_its_last_step(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": []}, failureMode="continue")
    driver.finish(run_id, "a", failure=BROKEN)
    complete(driver, run_id, 2)
    assert types(driver, run_id)[-2:] == ["task_run.completed", "run.failed"]


def fail_a_step(driver: RunDriver, run_id: UUID) -> None:
    driver.finish(run_id, "a", failure=BROKEN)


def cancel(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id, reason="not needed", by="ana")


def time_out(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        assert deadlines.time_out_run(tx, driver.tenant, run_id, "RUN_TIMEOUT", f"after {timedelta(1)}")


@pytest.mark.parametrize(
    ("end", "last"), [(fail_a_step, "failed"), (cancel, "cancelled"), (time_out, "failed")]
)
def test_a_run_that_ends_early_ends_after_the_task_runs_that_end_with_it(
    driver: RunDriver, end: Callable[[RunDriver, UUID], None], last: str
) -> None:
    run_id = driver.begin({"a": [], "b": [], "c": ["a", "b"]})
    end(driver, run_id)
    assert types(driver, run_id)[-2:] == ["task_runs.cancelled", f"run.{last}"]
    [event] = driver.events(run_id, f"run.{last}")
    row = driver.run(run_id)
    assert (event.at, event.data["error"]) == (row.finished_at, row.error["message"])
    assert event.data["errorCode"] == row.error_code
    assert event.data.get("by") == row.error.get("by")
    assert event.data.get("taskRunId") == row.error.get("taskRunId")
