"""Reports of services that are faster than the note that they have their dispatch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.run_driver import RunDriver

from pipeweave import dispatch_ids
from pipeweave.orchestrator.dispatch.report import FAILED, SUCCESS, Report
from pipeweave.orchestrator.dispatch.reports import Reports
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.task_run import Dispatched
from pipeweave.orchestrator.state import claiming, dispatches
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings
from pipeweave.storage import Backends

SECRET, WORKER = "5e" * 32, "worker@host:1:ab"


class Overtaking(Reports):
    """Reads its attempt before its dispatcher notes who has it, and stores the report after that."""

    taken: Dispatched

    def _outcome(self, *given: Any) -> CallOutcome:
        with self.database.transaction() as tx:
            dispatches.taken(tx, [self.taken])
        return super()._outcome(*given)


@pytest.mark.parametrize(("status", "ends_as"), [(SUCCESS, "completed"), (FAILED, "failed")])
def test_a_report_counts_that_overtakes_the_note_of_its_dispatch(
    database: Database, tmp_path: Path, status: str, ends_as: str
) -> None:
    folder = {"basePath": str(tmp_path)}
    values = Values(Backends([{"id": "local", "provider": "local", "credentials": folder}]))
    driver = RunDriver(database)
    run_id = driver.begin({"a": []})
    with database.transaction() as tx:
        [claim] = claiming.start(tx, run_id, [1], 1, worker=WORKER)
    reports = Overtaking(database, values, Settings(secret_key=SECRET))
    reports.taken = Dispatched(claim, "words http://127.0.0.1:1", WORKER)
    report = Report(status, output="done", has_output=status == SUCCESS, retryable=False)
    reported = reports.end(dispatch_ids.make(SECRET, claim.id, 1), report)
    assert not reported.is_repeated
    [row] = driver.rows("SELECT status FROM task_runs WHERE id = :id", id=claim.id)
    assert row.status == ends_as
