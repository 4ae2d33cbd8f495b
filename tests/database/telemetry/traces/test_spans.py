"""Spans of what has ended: once each, with ids that stay, whatever happened to the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

import pytest
from support.failed_runs import TWO, failed_run, letters, retry
from support.inline_worker import InlineWorker
from support.run_driver import TRANSIENT, RunDriver, claim, finish_next_attempt

from pipeweave import ids
from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.feed import consumers
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.telemetry import traces
from pipeweave.orchestrator.telemetry.traces import TraceSpan


class Collector:
    """Takes spans; the one of each id that came last."""

    def __init__(self) -> None:
        self.spans: dict[str, TraceSpan] = {}
        self.batches = 0
        self.is_away = False

    def send(self, spans: Sequence[TraceSpan]) -> bool:
        if not self.is_away:
            self.batches += 1
            self.spans |= {each.span_id: each for each in spans}
        return not self.is_away

    def of(self, run_id: UUID) -> dict[str, TraceSpan]:
        """The spans of a run by name, step and attempt, e.g. `a 1`."""
        name = ids.show(ids.RUN, run_id)
        mine = [each for each in self.spans.values() if each.attributes.get("runId") == name]
        return {_short(each): each for each in mine}


def _short(span: TraceSpan) -> str:
    if span.name == "orchestrator.run":
        return "run" if span.parent_id is None else "run again"
    index = span.attributes.get("mapIndex")
    item = "" if index is None else f"[{index}]"
    return f"{span.attributes['stepId']}{item} {span.attributes['attempt']}"


@pytest.fixture
def worker(isolated_driver: RunDriver) -> InlineWorker:
    return InlineWorker(isolated_driver)


@pytest.fixture
def collector(isolated_driver: RunDriver) -> Iterator[Collector]:
    traces.begin(isolated_driver.database)
    yield Collector()


def send_all(database: Database, collector: Collector) -> None:
    while traces.run_once(database, collector.send):
        pass


def test_a_run_and_its_attempts_are_one_trace(worker: InlineWorker, collector: Collector) -> None:
    run_id = failed_run(worker, TWO, "c")
    send_all(worker.driver.database, collector)
    found = collector.of(run_id)
    assert sorted(found) == ["a 1", "b 1", "c 1", "run"]
    run = found.pop("run")
    assert run.name == "orchestrator.run" and run.parent_id is None
    assert run.attributes["dagId"] == "driven" and run.attributes["status"] == "failed"
    assert run.attributes["tenant"] == worker.driver.tenant
    assert run.error is not None
    for step in found.values():
        assert step.name == "orchestrator.step"
        assert (step.trace_id, step.parent_id) == (run_id.hex, run.span_id)
        assert run.started_at <= step.started_at <= step.ended_at <= run.ended_at
    assert found["a 1"].error is None
    assert found["c 1"].error == "BOOM: it broke"
    assert found["c 1"].attributes["errorCode"] == "BOOM"


def test_retries_stay_in_the_trace_of_the_caller(worker: InlineWorker, collector: Collector) -> None:
    driver = worker.driver
    caller = f"00-{'4b' * 16}-{'a7' * 8}-01"
    driver.store({"a": []})
    run_id = driver.trigger(triggered_by=TriggeredBy(traceparent=caller))
    driver.finish(run_id, "a", failure=TRANSIENT)
    with driver.database.transaction() as tx:
        finish_next_attempt(tx, run_id, 1)
    send_all(driver.database, collector)
    found = collector.of(run_id)
    assert sorted(found) == ["a 1", "a 2", "run again"]
    assert {each.trace_id for each in found.values()} == {"4b" * 16}
    assert found["run again"].parent_id == "a7" * 8
    assert found["a 1"].attributes["status"] == "failed" and found["a 2"].attributes["status"] == "completed"


def test_a_run_that_went_on_after_its_end_has_one_more_span_below_the_first(
    worker: InlineWorker, collector: Collector
) -> None:
    run_id = failed_run(worker, TWO, "c")
    send_all(worker.driver.database, collector)
    worker.fails = {}
    retry(worker.driver, letters(worker.driver, run_id)[0])
    worker.consume_all()
    send_all(worker.driver.database, collector)
    found = collector.of(run_id)
    assert sorted(found) == ["a 1", "b 1", "c 1", "c 2", "run", "run again"]
    assert found["run again"].parent_id == found["run"].span_id
    assert found["run again"].error is None


def test_what_was_cancelled_while_it_ran_has_a_span(worker: InlineWorker, collector: Collector) -> None:
    driver = worker.driver
    driver.store(TWO)
    run_id = driver.trigger("driven")
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1)
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
    send_all(driver.database, collector)
    found = collector.of(run_id)
    assert sorted(found) == ["a 1", "run"]
    assert found["a 1"].attributes["status"] == "cancelled" and found["a 1"].error is None


def test_while_the_collector_is_away_nothing_is_lost(worker: InlineWorker, collector: Collector) -> None:
    collector.is_away = True
    run_id = failed_run(worker, TWO)
    assert traces.run_once(worker.driver.database, collector.send) is False
    collector.is_away = False
    send_all(worker.driver.database, collector)
    assert "run" in collector.of(run_id)


def test_a_batch_that_is_sent_twice_has_the_same_ids(worker: InlineWorker, collector: Collector) -> None:
    run_id = failed_run(worker, TWO)
    database = worker.driver.database
    with database.statements() as tx:
        before = consumers.read(tx, "traces")
    assert before is not None
    send_all(database, collector)
    first, collector.spans = collector.spans, {}
    put_back = "UPDATE feed_consumers SET before = CAST(:before AS xid8) WHERE name = 'traces' RETURNING 1"
    worker.driver.rows(put_back, before=str(before.seen.before))
    send_all(database, collector)
    assert collector.spans == first
    assert run_id


def test_two_who_send_move_the_place_once(worker: InlineWorker, collector: Collector) -> None:
    failed_run(worker, TWO)
    database = worker.driver.database

    def send(spans: Sequence[TraceSpan]) -> bool:
        send_all(database, collector)
        return True

    assert traces.run_once(database, send) is False
    with database.statements() as tx:
        assert consumers.read(tx, "traces") is not None
    batches = collector.batches
    send_all(database, collector)
    assert collector.batches == batches


def test_who_asks_for_no_record_gets_none(worker: InlineWorker, collector: Collector) -> None:
    worker.driver.store({"a": []})
    caller = TriggeredBy(traceparent=f"00-{'4b' * 16}-{'a7' * 8}-00")
    run_id = worker.driver.trigger(triggered_by=caller)
    worker.consume_all()
    send_all(worker.driver.database, collector)
    assert collector.of(run_id) == {}


def test_the_id_of_a_span_is_that_which_calls_carry(worker: InlineWorker, collector: Collector) -> None:
    run_id = failed_run(worker, {"a": []})
    send_all(worker.driver.database, collector)
    [step] = [each for name, each in collector.of(run_id).items() if name == "a 1"]
    [row] = worker.driver.rows("SELECT id FROM task_runs WHERE run_id = :id", id=run_id)
    assert tracing.traceparent_of(run_id, None, row.id, 1) == f"00-{step.trace_id}-{step.span_id}-01"


def test_after_a_day_without_sending_it_begins_anew(worker: InlineWorker, collector: Collector) -> None:
    run_id = failed_run(worker, TWO)
    database = worker.driver.database
    worker.driver.rows(
        "UPDATE feed_consumers SET read_at = read_at - interval '25 hours' WHERE name = 'traces' RETURNING 1"
    )
    traces.begin(database)
    send_all(database, collector)
    assert collector.of(run_id) == {}


@pytest.mark.parametrize("server", ["'other'", "server"])
def test_after_a_restore_spans_go_on_without_a_restart(
    worker: InlineWorker, collector: Collector, server: str
) -> None:
    """The place has numbers of another server, or lies beyond the end of this one's."""
    before = failed_run(worker, TWO)
    database = worker.driver.database
    worker.driver.rows(
        f"""UPDATE feed_consumers SET server = {server}, before =
            CAST(CAST(CAST(CAST(before AS text) AS bigint) + 1000000000 AS text) AS xid8)
            WHERE name = 'traces' RETURNING 1"""
    )
    send_all(database, collector)
    after = failed_run(worker, TWO)
    send_all(database, collector)
    assert collector.of(before) == {}
    assert "run" in collector.of(after)
