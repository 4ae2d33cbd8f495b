"""Reports of HTTP services: those that come early are stored, and calls that never began are not counted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave import dispatch_ids
from pipeweave.orchestrator.dispatch.report import FAILED, SUCCESS, Report
from pipeweave.orchestrator.dispatch.reports import ReportReceiver
from pipeweave.orchestrator.domain.task_run import Dispatched, TaskRun
from pipeweave.orchestrator.state import claiming, dispatches
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings

SECRET, WORKER = "5e" * 32, "worker@host:1:ab"
DONE = Report(SUCCESS, output=7, has_output=True)
BROKEN = Report(FAILED, error="no", error_code="BROKEN")


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def reports(database: Database) -> ReportReceiver:
    return ReportReceiver(database, VALUES, Settings(secret_key=SECRET))


@pytest.fixture
def claim(driver: RunDriver) -> TaskRun:
    """A task run that a worker has claimed and dispatches."""
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        [claimed] = claiming.start(tx, run_id, [1], 1, worker=WORKER)
    return claimed


def id_of(claim: TaskRun) -> str:
    return dispatch_ids.make(SECRET, claim.id, claim.attempt)


def row(driver: RunDriver, id: UUID) -> Any:
    [found] = driver.rows("SELECT status, attempt, max_attempts FROM task_runs WHERE id = :id", id=id)
    return found


@pytest.mark.parametrize(("report", "status"), [(DONE, "completed"), (BROKEN, "failed")])
def test_a_report_that_comes_while_the_dispatch_is_noted_is_stored(
    driver: RunDriver,
    reports: ReportReceiver,
    claim: TaskRun,
    report: Report,
    status: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decide = reports._outcome

    def decide_while_it_is_noted(*arguments: Any) -> Any:
        with driver.database.transaction() as tx:
            dispatches.taken(tx, [Dispatched(claim, "web http://web", WORKER)])
        return decide(*arguments)

    monkeypatch.setattr(reports, "_outcome", decide_while_it_is_noted)
    reports.end(id_of(claim), report)
    now = row(driver, claim.id)
    assert now.status == status or now.attempt == claim.attempt + 1


@pytest.mark.parametrize(("is_final", "uncounted"), [(False, 1), (True, 0)])
def test_an_attempt_that_never_began_is_counted_only_where_no_other_can_help(
    driver: RunDriver, reports: ReportReceiver, claim: TaskRun, is_final: bool, uncounted: int
) -> None:
    before = row(driver, claim.id)
    report = Report(FAILED, error="away", error_code="UNAVAILABLE", begun=False, retryable=not is_final)
    assert reports.end(id_of(claim), report).is_retrying is not is_final
    assert row(driver, claim.id).max_attempts == before.max_attempts + uncounted
