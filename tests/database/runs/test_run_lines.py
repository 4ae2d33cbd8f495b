"""The log has a line for the start and for the end of each run of a pipeline."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.domain.triggered_by import API, TriggeredBy
from pipeweave.orchestrator.runs import admission, standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database

NAMES = ("message", "tenant", "pipeline_id", "run_id", "trace_id")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def driver(database: Database, caplog: pytest.LogCaptureFixture) -> RunDriver:
    driver = RunDriver(database)
    driver.store({"a": []}, id="lined")
    caplog.set_level(logging.INFO, logger="pipeweave.orchestrator.state.run_transitions")
    return driver


def lines(caplog: pytest.LogCaptureFixture, tenant: str) -> list[tuple[Any, ...]]:
    """The lines of a tenant's runs: message, tenant, pipeline, run and trace."""
    return [
        tuple(getattr(each, name) for name in NAMES)
        for each in caplog.records
        if getattr(each, "tenant", None) == tenant and each.message.startswith("run.")
    ]


def test_a_run_has_a_line_when_it_starts_and_when_it_ends(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = driver.trigger(
        "lined", triggered_by=TriggeredBy(API, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
    )
    names = (driver.tenant, "lined", ids.show(ids.RUN, run_id), TRACE)
    assert lines(caplog, driver.tenant) == [("run.started", *names)]
    driver.finish(run_id, "a")
    assert lines(caplog, driver.tenant)[1:] == [("run.completed", *names)]


def test_a_run_that_waits_for_a_slot_has_its_line_when_it_starts(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    with driver.database.transaction() as tx:
        admission.set_limit(tx, driver.tenant, 1)
    first, second = driver.trigger("lined"), driver.trigger("lined")
    started = [line[3] for line in lines(caplog, driver.tenant)]
    assert started == [ids.show(ids.RUN, first)]
    driver.finish(first, "a")
    told = [(line[0], line[3]) for line in lines(caplog, driver.tenant)]
    assert ("run.started", ids.show(ids.RUN, second)) in told
    assert ("run.completed", ids.show(ids.RUN, first)) in told
    assert len(told) == 3


def test_standalone_tasks_have_no_line_of_their_start(
    driver: RunDriver, caplog: pytest.LogCaptureFixture
) -> None:
    with driver.database.transaction() as tx:
        standalone_tasks.enqueue(tx, driver.values, driver.tenant, [QueueRequest("noop")] * 3)
    assert lines(caplog, driver.tenant) == []


def test_a_run_that_was_rolled_back_has_no_line(driver: RunDriver, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Exception, match="division"), driver.database.transaction() as tx:
        triggering.trigger(tx, driver.values, driver.tenant, StartRequest("lined", None))
        tx.execute("SELECT 1 / 0")
    assert lines(caplog, driver.tenant) == []
