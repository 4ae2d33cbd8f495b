"""Enqueued runs start once each, whatever dies in between; what cannot start says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg2
import pytest
from support.concurrency import BackgroundCall, call_concurrently
from support.due_chores import due_chores
from support.run_driver import Clock, RunDriver
from support.stored_values import VALUES

import pipeweave
from pipeweave import ids
from pipeweave.errors import NotFound, RunEnqueued, RunRefused, RunTokenTaken, Unavailable
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.diagnosis import check_enqueued
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import creation, triggering
from pipeweave.orchestrator.starts.enqueued import rows, starting
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings

from .conftest import Caller

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def shown(caller: Caller, run: str) -> Any:
    with caller.driver.database.reading() as tx:
        return reading.run(tx, caller.tenant, ids.read(ids.RUN, run))


def is_due(caller: Caller) -> bool:
    return due_chores(caller.driver.database, "enqueued") == {"enqueued"}


# --- starting ---------------------------------------------------------------------------------------------


def test_what_a_run_is_to_have_it_gets(caller: Caller) -> None:
    run = caller.enqueue(
        input={"x": 1}, failure_mode="continue", priority=7, metadata={"order": 12}, traceparent=TRACE
    )
    caller.commit()
    assert is_due(caller)
    caller.start()
    found = shown(caller, run)
    assert (found["input"], found["failureMode"], found["priority"]) == ({"x": 1}, "continue", 7)
    assert (found["metadata"], found["traceId"]) == ({"order": 12}, "4bf92f3577b34da6a3ce929d0e0e4736")
    assert found["triggeredBy"] == {"kind": "transaction", "id": None, "actor": "pipeweave"}
    assert caller.driver.sent
    assert not is_due(caller)


def test_a_transaction_that_lasts_is_found_when_it_ends(caller: Caller) -> None:
    """What began first commits last; ids and times of rows say nothing about that."""
    late = caller.enqueue()
    other = psycopg2.connect(caller.driver.database.url)
    early = pipeweave.enqueue(other, "files", tenant=caller.tenant)
    other.commit()
    other.close()
    caller.start()
    assert caller.runs() == [early]
    with pytest.raises(NotFound, match="not found"):
        shown(caller, late)
    caller.commit()
    caller.start()
    assert caller.runs() == [late, early]


@pytest.mark.parametrize(
    "broken", [rows._LOCK, creation._WRITE, rows._DELETE], ids=["lock", "write", "delete"]
)
def test_a_process_that_dies_anywhere_leaves_the_row_or_the_run(
    caller: Caller, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = caller.enqueue()
    caller.commit()
    execute = triggering.Transaction.execute

    def dying(self: Any, statement: str, *arguments: Any, **options: Any) -> Any:
        found = execute(self, statement, *arguments, **options)
        if statement == broken:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(triggering.Transaction, "execute", dying)
        with pytest.raises(KeyboardInterrupt):
            caller.start()
    assert (len(caller.rows()), caller.runs()) == (1, [])
    caller.start()
    assert (caller.rows(), caller.runs()) == ([], [run])


def test_several_start_each_run_once(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lease, which only spares them work."""
    runs = pipeweave.enqueue_many(caller.connection, "files", range(150), tenant=caller.tenant)
    caller.commit()
    monkeypatch.setattr(rows, "BATCH", 40)
    others = [Database(caller.driver.database.url) for _ in range(3)]
    calls = call_concurrently(
        *(lambda each=each: _batches(each) for each in others)  # type: ignore[misc]
    )
    for each in others:
        each.dispose()
    assert not [each.error for each in calls if each.error]
    assert (caller.runs(), caller.rows()) == (runs, [])


def _batches(database: Database) -> None:
    while starting._start_batch(database, VALUES, is_large=False):
        pass


def test_a_row_that_another_process_has_is_passed_over(caller: Caller) -> None:
    first, second = caller.enqueue(), caller.enqueue()
    caller.commit()
    with caller.driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM enqueued_runs WHERE id = :id FOR UPDATE", {"id": ids.read(ids.RUN, first)})
        other = Database(caller.driver.database.url)
        with BackgroundCall(lambda: starting.run_once(other, VALUES)) as call:
            call.wait()
        other.dispose()
        assert call.error is None
    assert caller.runs() == [second]
    caller.start()
    assert caller.runs() == [first, second]


def test_one_process_at_a_time_has_the_lease(caller: Caller) -> None:
    caller.enqueue()
    caller.commit()
    lease = leases.take(caller.driver.database, leases.ENQUEUED, timedelta(seconds=60))
    assert lease is not None
    caller.start()
    assert caller.runs() == []
    leases.end(caller.driver.database, lease)
    caller.start()
    assert len(caller.runs()) == 1


def test_tenants_take_turns(caller: Caller, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    other = RunDriver(database)
    other.store({"a": []}, id="files")
    pipeweave.enqueue_many(caller.connection, "files", range(20), tenant=caller.tenant)
    run = pipeweave.enqueue(caller.connection, "files", tenant=other.tenant)
    caller.commit()
    monkeypatch.setattr(rows, "BATCH", 4)
    starting._start_batch(database, VALUES, is_large=False)
    found = other.rows("SELECT id FROM runs WHERE tenant_id = :t", t=other.tenant)
    assert [ids.show(ids.RUN, each.id) for each in found] == [run]
    caller.start()


def test_large_inputs_go_to_storage_in_small_batches(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_BYTES", 100_000)
    runs = pipeweave.enqueue_many(
        caller.connection, "files", [{"x": "y" * 60_000} for _ in range(3)], tenant=caller.tenant
    )
    caller.commit()
    with caller.driver.database.statements() as tx:
        assert len([each for each in rows.due(tx, is_large=True) if each.tenant == caller.tenant]) == 1
    caller.start()
    assert caller.runs() == runs
    assert shown(caller, runs[0])["inputRef"]["size"] > 60_000


# --- run tokens -------------------------------------------------------------------------------------------


def test_the_same_token_and_input_are_one_run(caller: Caller) -> None:
    first = caller.enqueue(input={"x": 1}, run_token="order-12")
    again = caller.enqueue(input={"x": 1}, run_token="order-12")
    caller.commit()
    caller.start()
    later = caller.enqueue(input={"x": 1}, run_token="order-12")
    other = caller.enqueue(input={"x": 2}, run_token="order-12")
    caller.commit()
    caller.start()
    assert caller.runs() == [first, other]
    for each in (again, later):
        with pytest.raises(RunTokenTaken) as raised:
            shown(caller, each)
        assert raised.value.context["firstRunId"] == first


# --- what cannot start ------------------------------------------------------------------------------------


def test_an_input_that_the_pipeline_refuses_is_refused_and_the_others_start(caller: Caller) -> None:
    schema = {"fields": [{"name": "n", "label": "N", "type": "integer", "required": True}]}
    caller.driver.store({"a": []}, id="counted", inputSchema=schema)
    runs = pipeweave.enqueue_many(
        caller.connection, "counted", [{"n": 1}, {"n": "one"}, {"n": 3}], tenant=caller.tenant
    )
    caller.commit()
    caller.start()
    assert caller.runs() == [runs[0], runs[2]]
    with pytest.raises(RunRefused, match="INPUT_VALIDATION_FAILED: pipeline 'counted'"):
        shown(caller, runs[1])
    caller.start()
    assert len(caller.rows()) == 1


def test_one_row_that_makes_trouble_does_not_stop_the_others(caller: Caller) -> None:
    """As nobody checks what other programs write: two rows with mistakes among many."""
    runs = pipeweave.enqueue_many(caller.connection, "files", range(9), tenant=caller.tenant)
    with caller.connection.cursor() as cursor:
        cursor.execute("UPDATE enqueued_runs SET priority = 2000000000 WHERE id = %s", (uuid(runs[4]),))
        cursor.execute("UPDATE enqueued_runs SET input = %s WHERE id = %s", ('"a\\u0000"', uuid(runs[7])))
    caller.commit()
    caller.start()
    assert caller.runs() == [each for number, each in enumerate(runs) if number not in (4, 7)]
    assert [each.error_code for each in caller.rows()] == ["INVALID_INPUT", "INVALID_INPUT"]


def uuid(run: str) -> str:
    return str(ids.read(ids.RUN, run))


def test_a_forged_id_of_a_run_that_is_there_harms_nobody(caller: Caller) -> None:
    run = caller.enqueue()
    caller.commit()
    caller.start()
    with caller.connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO enqueued_runs (id, tenant_id, pipeline_id) VALUES (%s, %s, 'files')",
            (uuid(run), caller.tenant),
        )
    second = caller.enqueue()
    caller.commit()
    caller.start()
    assert caller.runs() == [run, second]
    (left,) = caller.rows()
    assert left.settled_at is not None
    assert (left.error_code, left.error[:33]) == ("INVALID_INPUT", "id is that of a run that is there")


def test_a_pipeline_that_comes_later_is_waited_for_and_then_refused(caller: Caller) -> None:
    run = caller.enqueue("later")
    lost = caller.enqueue("never")
    caller.commit()
    caller.start()
    with pytest.raises(RunEnqueued, match="the last try ended with NOT_FOUND: pipeline 'later'"):
        shown(caller, run)
    caller.driver.store({"a": []}, id="later")
    age(caller, rows.PATIENCE)
    caller.start()
    assert caller.runs() == [run]
    with pytest.raises(RunRefused, match="NOT_FOUND"):
        shown(caller, lost)


def age(caller: Caller, by: timedelta) -> None:
    with caller.connection.cursor() as cursor:
        cursor.execute(
            """UPDATE enqueued_runs SET due_at = due_at - %(by)s, enqueued_at = enqueued_at - %(by)s,
                settled_at = settled_at - %(by)s WHERE tenant_id = %(tenant)s""",
            {"by": by, "tenant": caller.tenant},
        )
    caller.commit()


def test_while_storage_is_away_they_wait_for_as_long_as_that_lasts(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = caller.enqueue(input={"x": "z" * 60_000})
    caller.commit()
    age(caller, 3 * rows.PATIENCE)

    def away(*_: Any, **__: Any) -> None:
        raise Unavailable("the storage is away")

    with monkeypatch.context() as patch:
        patch.setattr(type(VALUES.backends.default), "put", away)
        caller.start()
    (row,) = caller.rows()
    assert (row.error_code, row.settled_at, row.tries) == ("UNAVAILABLE", None, 1)
    age(caller, timedelta(seconds=rows.LONGEST_PAUSE_S))
    caller.start()
    assert caller.runs() == [run]


def test_during_maintenance_nothing_starts_and_nothing_is_lost(isolated_driver: RunDriver) -> None:
    isolated_driver.store({"a": []}, id="files")
    connection = psycopg2.connect(isolated_driver.database.url)
    caller = Caller(isolated_driver, connection)
    with isolated_driver.database.transaction() as tx:
        maintenance_mode.request(tx)
        maintenance_mode.enter(tx)
    run = caller.enqueue()
    caller.commit()
    caller.start()
    assert caller.runs() == [] and not is_due(caller)
    with isolated_driver.database.transaction() as tx:
        maintenance_mode.leave(tx)
    caller.start()
    assert caller.runs() == [run]
    connection.close()


# --- around it --------------------------------------------------------------------------------------------


def test_doctor_names_what_waits_and_what_was_refused(isolated_driver: RunDriver) -> None:
    isolated_driver.store({"a": []}, id="files")
    connection = psycopg2.connect(isolated_driver.database.url)
    caller = Caller(isolated_driver, connection)
    settings = Settings(database_url=isolated_driver.database.url)
    assert check_enqueued.started(settings).level is Severity.OK
    run = caller.enqueue("unknown")
    caller.commit()
    caller.start()
    found = check_enqueued.started(settings)
    assert (
        found.level is Severity.WARNING
        and f"waiting to start: an enqueued run: {run} of unknown" in found.line
    )
    age(caller, rows.PATIENCE)
    caller.start()
    assert "refused" in check_enqueued.started(settings).line
    connection.close()


def test_what_was_refused_expires_with_the_runs_of_its_time(isolated_driver: RunDriver, clock: Clock) -> None:
    connection = psycopg2.connect(isolated_driver.database.url)
    caller = Caller(isolated_driver, connection)
    caller.enqueue("unknown")
    caller.commit()
    age(caller, rows.PATIENCE)
    caller.start()
    policy = Policy(runs=timedelta(days=30))
    with isolated_driver.database.transaction() as tx:
        assert expiry.run_once(tx, policy).enqueued_runs == 0
    clock.ahead += timedelta(days=62)
    with isolated_driver.database.transaction() as tx:
        assert expiry.run_once(tx, policy).enqueued_runs == 1
    connection.close()


def test_a_look_reads_an_index_of_what_is_due(caller: Caller) -> None:
    with caller.connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {starting._HAS_DUE.format(also=False)}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "enqueued_runs_due" in plan
