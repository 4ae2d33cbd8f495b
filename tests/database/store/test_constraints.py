"""The tables refuse nonsense, whoever writes it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg2
import pytest
from support.factories import a_pipeline, end, end_run
from support.stored_values import VALUES

from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Transaction

TENANT = "constraint-tests"


@pytest.fixture
def run_id(tx: Transaction) -> UUID:
    """A run of two steps: the first is queued, the second pending."""
    a_pipeline(tx, TENANT, "a", "b")
    return triggering.trigger(tx, VALUES, TENANT, StartRequest("chain")).id


def refused(tx: Transaction, statement: str, **parameters: Any) -> str:
    """Run a statement that must fail; what PostgreSQL said."""
    tx.execute("SAVEPOINT whole")
    with pytest.raises(psycopg2.Error) as error:
        tx.execute(statement, parameters)
    tx.execute("ROLLBACK TO whole")
    return str(error.value)


RUN_CHANGES = {
    "an unknown status": "status = 'done'",
    "final without an end": "status = 'completed'",
    "an end without being final": "finished_at = now()",
    "running without a start": "started_at = NULL",
    "failed without a code": "status = 'failed', finished_at = now()",
    "an unknown failure mode": "failure_mode = 'sometimes'",
    "a version without a pipeline": "pipeline_id = NULL",
    "a pipeline without a version": "pipeline_version = NULL",
    "an input that is twice there": "input = '1', input_path = 'p'",
    "a negative size": "input_size = -1",
    "a hash that is none": "inputs_hash = 'abc'",
    "a hash of other letters": "inputs_hash = repeat('A', 64)",
    "a hash that goes on": "inputs_hash = repeat('a', 65)",
    "a hash with a line": "inputs_hash = repeat('a', 63) || chr(10)",
    "too many task runs": "task_run_count = 16777216",
    "an empty run token": "run_token = ''",
    "paused for less than nothing": "paused_ms = -1",
    "idle for no time": "idle_timeout_ms = 0",
    "too deep inside of others": "depth = 11",
    "a body without a scope": "body = 'each'",
    "a scope without a body": "scope = '{}'",
    "a queue with a space": "queue_name = 'a b'",
    "labels that are none": "requires = '{}'",
    "a label without a name": """requires = '{"": "a100"}'""",
    "a limit without a key": "concurrency_limit = 1",
    "a key without a limit": "concurrency_key = 'k', concurrency_replaces = false",
    "a key that does not say whether it replaces": "concurrency_key = 'k', concurrency_limit = 1",
    "a long key": "concurrency_key = repeat('k', 201), concurrency_limit = 1, concurrency_replaces = false",
    "no room": "concurrency_key = 'k', concurrency_limit = 0, concurrency_replaces = false",
    "a rate without its time": "concurrency_key = 'k', concurrency_replaces = false, key_rate = 1",
    "a rate without a key": "key_rate = 1, key_seconds = 1",
    "a rate of none": "concurrency_key = 'k', concurrency_replaces = false, key_rate = 0, key_seconds = 1",
    "a key without a pipeline": "concurrency_key = 'k', concurrency_limit = 1, concurrency_replaces = false,"
    " pipeline_id = NULL, pipeline_version = NULL",
}


@pytest.mark.parametrize("change", RUN_CHANGES.values(), ids=RUN_CHANGES)
def test_a_run_cannot_be(tx: Transaction, run_id: UUID, change: str) -> None:
    assert "violates check constraint" in refused(tx, f"UPDATE runs SET {change} WHERE id = :id", id=run_id)


TASK_RUN_CHANGES = {
    "an unknown status": "status = 'done'",
    "final without an end": "status = 'completed'",
    "an end without being final": "finished_at = now()",
    "queued since never": "queued_at = NULL",
    "running without a worker": "status = 'running', started_at = now()",
    "running without a start": "status = 'running', worker = 'w'",
    "failed without a code": "status = 'failed', finished_at = now()",
    "timed out without a code": "status = 'timeout', finished_at = now()",
    "an attempt 0": "attempt = 0",
    "no attempts allowed": "max_attempts = 0",
    "an unknown kind": "kind = 'group'",
    "an item without a place": "kind = 'item'",
    "a place without being an item": "map_index = 1",
    "a parent without being an item": "map_parent = 1",
    "progress beyond 100": "progress = 100.5",
    "negative progress": "progress = -1",
    "an output that is twice there": "output = '1', output_path = 'p'",
    "a queue with a space": "queue_name = 'a b'",
    "labels that are none": "requires = '[]'",
}


@pytest.mark.parametrize("change", TASK_RUN_CHANGES.values(), ids=TASK_RUN_CHANGES)
def test_a_task_run_cannot_be(tx: Transaction, run_id: UUID, change: str) -> None:
    statement = f"UPDATE task_runs SET {change} WHERE run_id = :id AND status = 'queued'"
    assert "violates check constraint" in refused(tx, statement, id=run_id)


TASK_CHANGES = {
    "a code hash of other letters": "code_hash = repeat('G', 64)",
    "a short code hash": "code_hash = 'abc'",
    "a version 0": "code_version = 0",
    "no time": "timeout_seconds = 0",
    "an unknown backoff": "retry_backoff = 'never'",
    "a negative delay": "retry_delay_ms = -1",
    "no heartbeat": "heartbeat_interval_ms = 0",
    "a negative limit": "concurrency = -1",
    "an id with a space": "id = 'a b'",
}


@pytest.mark.parametrize("change", TASK_CHANGES.values(), ids=TASK_CHANGES)
def test_a_task_cannot_have(tx: Transaction, run_id: UUID, change: str) -> None:
    statement = f"UPDATE tasks SET {change} WHERE tenant_id = :tenant AND id = 'b'"
    assert "violates check constraint" in refused(tx, statement, tenant=TENANT)


def test_valid_rows_are_accepted(tx: Transaction, run_id: UUID) -> None:
    for ordinal, status in ((1, "failed"), (2, "skipped")):
        end(tx, run_id, ordinal, status)
    end_run(tx, run_id, "failed")


def test_a_run_may_have_what_few_runs_have(tx: Transaction, run_id: UUID) -> None:
    key = "concurrency_key = 'k', concurrency_limit = 1, concurrency_replaces = false"
    rare = "idle_timeout_ms = 1, depth = 10, body = 'each', scope = '{}', queue_name = 'a.b'"
    labels = """requires = '{"gpu": "a100", "zone": "1"}'"""
    rate = "key_rate = 1, key_seconds = 0.5"
    changed = tx.execute(f"UPDATE runs SET {key}, {rate}, {rare}, {labels} WHERE id = :id", {"id": run_id})
    assert changed.rowcount == 1
    changed = tx.execute(
        f"UPDATE task_runs SET queue_name = 'q', {labels} WHERE run_id = :id", {"id": run_id}
    )
    assert changed.rowcount == 2


@pytest.mark.parametrize(("table", "checks"), [("runs", 1), ("task_runs", 1), ("events", 0)])
def test_a_row_that_a_step_changes_has_one_check_at_most_and_that_is_a_call(
    tx: Transaction, table: str, checks: int
) -> None:
    """PostgreSQL reads the text of each CHECK again for every statement that changes a row."""
    texts = tx.execute(
        "SELECT CAST(conbin AS text) FROM pg_constraint"
        " WHERE contype = 'c' AND conrelid = CAST(:name AS regclass)",
        {"name": table},
    ).scalars()
    assert len(texts) == checks
    assert all(each.startswith("{FUNCEXPR") and "{OPEXPR" not in each for each in texts)


def test_no_domain_counts_letters_by_a_pattern(tx: Transaction) -> None:
    """PostgreSQL makes the states of a pattern for each value again: one for each letter that it counts."""
    counting = tx.execute(
        "SELECT CAST(contypid AS regtype) FROM pg_constraint"
        " WHERE contypid <> 0 AND pg_get_constraintdef(oid) ~ '[{][0-9]+[,}]'"
    ).scalars()
    assert counting == []


def test_rows_of_one_run_have_one_id_each(tx: Transaction, run_id: UUID) -> None:
    for table in ("runs", "task_runs"):
        copy = (
            f"INSERT INTO {table} SELECT * FROM {table} WHERE {'id' if table == 'runs' else 'run_id'} = :id"
        )
        assert "duplicate key" in refused(tx, copy, id=run_id)


def test_a_task_belongs_to_a_service_of_its_tenant(tx: Transaction, run_id: UUID) -> None:
    statement = "UPDATE tasks SET service_id = 'nobody' WHERE tenant_id = :tenant"
    assert "foreign key" in refused(tx, statement, tenant=TENANT)


def test_a_tenant_with_services_cannot_be_deleted(tx: Transaction, run_id: UUID) -> None:
    with pytest.raises(psycopg2.IntegrityError):
        tx.execute("DELETE FROM tenants WHERE id = :tenant", {"tenant": TENANT})


def test_a_task_run_has_one_open_dead_letter_at_most(tx: Transaction, run_id: UUID) -> None:
    insert = """
        INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, step_id, task_id, kind, status,
            code_version, code_hash, attempts, error, error_code, fingerprint, history, failed_at, retried_at)
        VALUES (gen_random_uuid(), :tenant, :run, :run, 'a', 'a', 'task', 'failed', 1,
            'x', 1, '{}', 'X', 'f', '[]', now(), :retried)"""
    wish = {"tenant": TENANT, "run": run_id}
    tx.execute(insert, {**wish, "retried": tx.now})
    tx.execute(insert, {**wish, "retried": None})
    assert "dead_letters_one_open" in refused(tx, insert, **wish, retried=None)


def test_there_is_one_state_of_the_orchestrator(tx: Transaction) -> None:
    insert = "INSERT INTO orchestrator_state (singleton, mode, mode_changed_at) VALUES (:s, 'running', now())"
    assert "duplicate key" in refused(tx, insert, s=True)
    assert "check constraint" in refused(tx, insert, s=False)


def test_a_token_without_tenant_or_scope_is_refused(tx: Transaction) -> None:
    insert = """INSERT INTO access_tokens (id, name, token_hash, tenants, scopes, created_at)
        VALUES (gen_random_uuid(), 'n', repeat('0', 64), CAST(:tenants AS text[]),
            CAST(:scopes AS text[]), now())"""
    assert "check constraint" in refused(tx, insert, tenants=[], scopes=["x"])
    assert "check constraint" in refused(tx, insert, tenants=["x"], scopes=[])
