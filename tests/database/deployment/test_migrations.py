"""A migration upgrades a database that is in use, and processes of the version before go on beside it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from support.schemas import steps_up
from support.servers import new_database

from pipeweave import ids
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.up.postgres import Postgres

HASH = "a" * 64

# A row in every table that 0002 changes, with the columns that 0001 has.
ROWS_OF_0001 = (
    "INSERT INTO tenants (id, created_at) VALUES (:tenant, now())",
    "INSERT INTO services (tenant_id, id, kind, version, queue, status, registered_at, last_heartbeat)"
    " VALUES (:tenant, 's', 'python', '1', 'q', 'active', now(), now())",
    "INSERT INTO tasks (tenant_id, id, service_id, code_hash, code_version, allowed_next, timeout_seconds,"
    " max_attempts, retry_backoff, retry_delay_ms, max_retry_delay_ms, heartbeat_interval_ms, concurrency,"
    " priority, idempotency_ttl_seconds, registered_at, updated_at)"
    " VALUES (:tenant, 't', 's', :hash, 1, '{}', 60, 3, 'fixed', 0, 0, 60000, 0, 100, 60, now(), now())",
    "INSERT INTO runs (id, tenant_id, status, failure_mode, input_size, inputs_hash, task_run_count,"
    " created_at, started_at) VALUES (:run, :tenant, 'running', 'fail-fast', 2, :hash, 1, now(), now())",
    "INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority,"
    " queue, is_limited, code_version, code_hash, created_at, queued_at)"
    " VALUES (:run, :task_run, :tenant, 'a', 't', 'task', 'queued', 3, 100, 'q', false, 1, :hash, now(),"
    " now())",
    "INSERT INTO attempts (run_id, task_run_id, number, status, code_version, finished_at)"
    " VALUES (:run, :task_run, 1, 'failed', 1, now())",
    "INSERT INTO events (run_id, at, type) VALUES (:run, now(), 'run.created')",
    "INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, step_id, task_id, code_version, code_hash,"
    " attempts, error, error_code, fingerprint, failed_at)"
    " VALUES (:run, :tenant, :run, :task_run, 'a', 't', 1, :hash, 1, '{}', 'TASK_ERROR', 'f', now())",
    "INSERT INTO run_tokens (tenant_id, run_token, pipeline_id, inputs_hash, run_id, created_at)"
    " VALUES (:tenant, 'token', 'p', :hash, :run, now())",
    "INSERT INTO idempotency_claims (tenant_id, task_id, key, task_run_id, claimed_at)"
    " VALUES (:tenant, 't', 'key', :task_run, now())",
    "INSERT INTO workers (id, tenant_id, service_id, name, hostname, pid, concurrency, task_count,"
    " started_at, heartbeat_at) VALUES (:tenant, :tenant, 's', 'w', 'h', 1, 1, 0, now(), now())",
    "UPDATE orchestrator_state SET last_tick_at = now()",
)


@pytest.fixture
def database(postgres_server: Postgres) -> Iterator[Database]:
    with new_database(postgres_server, "migrated_in_steps") as url:
        opened = Database(url, pool_size=1)
        yield opened
        opened.dispose()


def upgrade(database: Database, revision: str) -> None:
    with database.transaction() as tx:
        steps_up(tx, None if revision == "head" else revision)
        if partitions.exists(tx, "signals"):
            partitions.ensure(tx, tx.now)
            return
        # Of that version; what runs now knows a table more.
        for each in partitions.PARTITIONED[:-1]:
            tx.execute(f"CREATE TABLE IF NOT EXISTS {each}_default PARTITION OF {each} DEFAULT")


def fill(tx: Transaction, tenant: str) -> UUID:
    run_id = ids.new_id()
    parameters = {
        "tenant": tenant,
        "run": run_id,
        "task_run": ids.task_run_id(run_id, 1),
        "hash": HASH,
    }
    for statement in ROWS_OF_0001:
        tx.execute(statement, parameters)
    return run_id


@pytest.mark.parametrize("steps", [("head",), ("0002", "head")], ids=["at once", "one by one"])
def test_a_filled_database_is_upgraded_and_takes_what_the_first_version_inserts(
    database: Database, steps: tuple[str, ...]
) -> None:
    upgrade(database, "0001")
    with database.transaction() as tx:
        before = fill(tx, "before")
    for revision in steps:
        upgrade(database, revision)
        with database.transaction() as tx:
            fill(tx, f"after-{revision}")
    with database.transaction() as tx:
        row = tx.execute("SELECT * FROM dead_letters WHERE id = :id", {"id": before}).one()
        assert (row.kind, row.status, row.history) == ("task", "failed", [])
        counted = tx.execute("SELECT count(*) FROM dead_letters").scalar_one()
    assert counted == 1 + len(steps)


def test_dead_letters_take_an_old_insert_where_0002_was_shipped_without_defaults(database: Database) -> None:
    upgrade(database, "0002")
    with database.transaction() as tx:
        for column in ("kind", "status", "history"):
            tx.execute(f"ALTER TABLE dead_letters ALTER COLUMN {column} DROP DEFAULT")
    upgrade(database, "head")
    with database.transaction() as tx:
        fill(tx, "old")
