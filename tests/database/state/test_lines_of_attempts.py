"""The log says of each attempt that failed what follows, and of a retry that it helped."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest
from support.handled_runs import last_child, rule, store_remedy
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, finish_next_attempt
from support.suspended_runs import ONE_RETRY, SuspendedRuns

from pipeweave import ids
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepRetry, StepSpec

TWO_ATTEMPTS = StepRetry(attempts=2, delay_ms=1, backoff="fixed")


@pytest.fixture
def driver(database: Database, caplog: pytest.LogCaptureFixture) -> RunDriver:
    caplog.set_level(logging.INFO, logger="pipeweave.orchestrator")
    return RunDriver(database)


def begin(driver: RunDriver, **rules: Any) -> UUID:
    driver.store_steps(StepSpec("work", "noop", **rules))
    return driver.trigger()


def line(caplog: pytest.LogCaptureFixture, run_id: UUID, message: str) -> dict[str, Any]:
    """The only line of this message about a run."""
    [record] = [
        vars(each)
        for each in caplog.records
        if each.message == message and getattr(each, "run_id", None) == ids.show(ids.RUN, run_id)
    ]
    return record


def messages(caplog: pytest.LogCaptureFixture, run_id: UUID) -> list[str]:
    shown = ids.show(ids.RUN, run_id)
    return [each.message for each in caplog.records if getattr(each, "run_id", None) == shown]


def test_a_retry_that_helped_has_a_line_with_both_numbers(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = begin(driver, retry=TWO_ATTEMPTS)
    driver.finish(run_id, "work", failure=TRANSIENT)
    assert "task_run.retry_succeeded" not in messages(caplog, run_id)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, run_id, 1, output="secret")
    told = line(caplog, run_id, "task_run.retry_succeeded")
    assert (told["levelname"], told["step_id"], told["attempt"], told["max_attempts"]) == (
        "INFO",
        "work",
        2,
        2,
    )
    assert "secret" not in str(told)


def test_a_first_attempt_that_completes_has_no_such_line(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = begin(driver)
    driver.finish(run_id, "work")
    assert messages(caplog, run_id) == ["run.started", "run.completed"]


def test_a_retry_of_a_call_that_goes_on_elsewhere_has_its_line_when_the_result_comes(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    runs = SuspendedRuns(driver)
    run_id = runs.begin(step={"retry": ONE_RETRY})
    runs.report(run_id, {"status": "failed", "error": "no paper"})
    runs.suspend(runs.claim_again(run_id))
    runs.report(run_id, {"status": "completed", "result": 7}, attempt=2)
    told = line(caplog, run_id, "task_run.retry_succeeded")
    assert (told["step_id"], told["attempt"], told["max_attempts"]) == ("ask", 2, 2)


@pytest.mark.parametrize(
    ("how", "code", "limit_ms"),
    [(failure.overdue(1.5), "TIMEOUT", 1500), (failure.silent(5_000), "HEARTBEAT_LOST", 10_000)],
)
def test_an_attempt_beyond_a_limit_has_a_line_with_the_limit(
    driver: RunDriver, caplog: pytest.LogCaptureFixture, how: Failure, code: str, limit_ms: int
) -> None:
    run_id = begin(driver, retry=TWO_ATTEMPTS)
    driver.finish(run_id, "work", failure=how)
    told = line(caplog, run_id, "task_run.timeout_exceeded")
    assert (told["levelname"], told["step_id"], told["timeout_ms"], told["error_code"]) == (
        "WARNING",
        "work",
        limit_ms,
        code,
    )
    assert messages(caplog, run_id)[1:] == ["task_run.timeout_exceeded", "task_run.retrying"]
    [attempt] = driver.rows("SELECT error FROM attempts WHERE run_id = :id", id=run_id)
    assert attempt.error["details"] == {"timeoutMs": limit_ms}


def test_another_failure_has_no_line_of_a_limit(driver: RunDriver, caplog: pytest.LogCaptureFixture) -> None:
    run_id = begin(driver)
    driver.finish(run_id, "work", failure=PERMANENT)
    assert messages(caplog, run_id) == ["run.started", "task_run.failed", "run.failed"]


def test_a_handler_that_fails_has_a_line_with_the_codes_of_both_errors(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    store_remedy(driver)
    run_id = begin(driver, on_error=rule("remedy"), retry=StepRetry(attempts=1))
    driver.finish(run_id, "work", failure=failure.overdue(2))
    child = last_child(driver, run_id)
    driver.finish(child, "cure", failure=PERMANENT)
    told = line(caplog, run_id, "error_handler.failed")
    assert (told["levelname"], told["step_id"], told["original_error"], told["handler_error"]) == (
        "ERROR",
        "work",
        "TIMEOUT",
        "STEP_FAILED",
    )
    assert told["handler_run_id"] == ids.show(ids.RUN, child)
    # The limit was exceeded once, whatever became of the error.
    line(caplog, run_id, "task_run.timeout_exceeded")
