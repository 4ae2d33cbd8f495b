"""What an object's keeper costs does not grow with history: no table with data is read from end to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.plans import plans_of, read_whole, rows_looked_at
from support.servers import new_database

from pipeweave import ids
from pipeweave.orchestrator.objects import keepers, owners, uploads
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.storage import ObjectRef
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

TENANT = "plans"
RUNS = 20_000

# Every run and every task run has a large value of its own; one value is that of many runs.
_HISTORY = (
    "INSERT INTO tenants (id, created_at) VALUES (:tenant, now()), ('other', now())",
    """CREATE TABLE made AS
    SELECT n, CAST(lpad(to_hex(CAST(:newest AS bigint) - (:runs - n) * 1000), 12, '0') || '70008000'
                   || lpad(to_hex(n), 6, '0') || '000000' AS uuid) AS id,
        'local//artifacts/sha256/' || left(encode(sha256(CAST(CAST(n AS text) AS bytea)), 'hex'), 2) || '/'
            || encode(sha256(CAST(CAST(n AS text) AS bytea)), 'hex') AS path
    FROM generate_series(1, :runs) AS n""",
    """INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input_size,
        inputs_hash, task_run_count, created_at, started_at, finished_at, input_path)
    SELECT id, CASE WHEN n % 100 = 0 THEN :tenant ELSE 'other' END, 'chain', 1, 'completed', 'fail-fast', 2,
        repeat('0', 64), 1, now(), now(), now(),
        CASE WHEN n % 10 = 0 THEN (SELECT path FROM made WHERE n = 1) ELSE path END
    FROM made""",
    """INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority,
        queue, is_limited, code_version, code_hash, created_at, finished_at, output_path)
    SELECT id, CAST(overlay(CAST(id AS text) PLACING '01' FROM 35) AS uuid), :tenant, 'a', 'a', 'task',
        'completed', 4, 100, 'q', false, 1, repeat('0', 64), now(), now(), path FROM made""",
    """INSERT INTO attempts (run_id, task_run_id, number, status, code_version, finished_at)
    SELECT id, CAST(overlay(CAST(id AS text) PLACING '01' FROM 35) AS uuid), 1, 'failed', 1, now()
    FROM made""",
    """INSERT INTO idempotency_claims (tenant_id, task_id, key, task_run_id, claimed_at, output_path)
    SELECT 'other', 'a', CAST(n AS text), id, now(), path FROM made""",
    """INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, step_id, task_id, kind, status,
        code_version, code_hash, attempts, error, error_code, fingerprint, history, failed_at, input_path)
    SELECT id, 'other', id, id, 'a', 'a', 'task', 'failed', 1, repeat('0', 64), 4, '{}', 'BOOM', 'f', '[]',
        now(), path FROM made""",
    """INSERT INTO temp_uploads (id, tenant_id, storage_path, filename, mime_type, size_bytes, sha256,
        uploaded_by, uploaded_at, expires_at, claimed_by_run_id)
    SELECT id, :tenant, 'local//temp-uploads/' || n, 'a', 'text/csv', 1, repeat('0', 64), 'test', now(),
        now(), CASE WHEN n % 2 = 0 THEN id END FROM made""",
    "INSERT INTO upload_claims (run_id, upload_id) SELECT id, id FROM made WHERE n % 2 = 0",
    # A file of every run, and one that all of them have.
    """INSERT INTO asset_claims (path, run_id, task_run_id, attempt, tenant_id)
    SELECT CASE WHEN n % 2 = 0 THEN (SELECT path FROM made WHERE n = 2) ELSE path END,
        id, CAST(overlay(CAST(id AS text) PLACING '01' FROM 35) AS uuid), 1 + n % 2, 'other' FROM made""",
)


_SHARED_FILE = "SELECT path FROM made WHERE n = 2"


@pytest.fixture(scope="module")
def history(postgres_server: Postgres, database_template: str) -> Iterator[Database]:
    """A database with much history, all of it in storage."""
    with new_database(postgres_server, "object_plans", database_template) as url:
        database = Database(url)
        with database.transaction() as tx:
            parameters = {"newest": int(tx.now.timestamp() * 1000), "runs": RUNS, "tenant": TENANT}
            for statement in _HISTORY:
                tx.execute(statement, parameters)
        with database.transaction() as tx:
            tx.execute("ANALYZE")
        yield database
        database.dispose()


def some_of(tx: Transaction, count: int) -> list[Any]:
    """Rows of `made`, far apart."""
    return tx.execute(
        "SELECT id, path FROM made WHERE n % :every = 1 ORDER BY n", {"every": RUNS // count}
    ).all()


def objects_of(row: Any) -> list[str]:
    """An object of each kind that the run of a row has."""
    run, task_run = ids.show(ids.RUN, row.id), ids.show(ids.TASK_RUN, ids.task_run_id(row.id, 1))
    return [
        ObjectRef.parse(row.path, "local").path,
        f"pipelines/{run}/input.json",
        f"runs/{task_run}.1/output.json",
        f"runs/{task_run}.2/logs.jsonl",
        f"temp-uploads/{ids.show(ids.UPLOAD, row.id)}/a.csv",
    ]


def test_a_page_of_objects_is_looked_up_by_index(history: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with history.statements() as tx:
        page = [path for row in some_of(tx, 100) for path in objects_of(row)]
        page += [ObjectRef.parse(path, "local").path for path in tx.execute(_SHARED_FILE).scalars()]
        nobody = [f"artifacts/sha256/ab/ab{number:062x}" for number in range(100)]
        plans = plans_of(tx, lambda: keepers.kept(tx, ["local", "other"], page + nobody), monkeypatch)
        assert read_whole(tx, plans) == set()
        # Each object has three names, and up to five tables to look them up in; partitions come on top.
        assert rows_looked_at(plans) <= 30 * len(page + nobody)


@pytest.mark.parametrize("kind", range(5))
def test_whose_an_object_is_is_found_by_index(
    history: Database, kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with history.reading() as tx:
        path = objects_of(some_of(tx, 10)[5])[kind]
        plans = plans_of(
            tx, lambda: owners.may_read(tx, TENANT, ObjectRef("local", path), "local"), monkeypatch
        )
        assert read_whole(tx, plans) == set()
        assert rows_looked_at(plans) <= 50


@pytest.mark.parametrize("change", [uploads.give_up, uploads.expire])
def test_an_upload_is_changed_by_index(
    history: Database, change: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with history.statements() as tx:
        given = some_of(tx, 10)[1].id if change is uploads.give_up else 1
        plans = plans_of(tx, lambda: change(tx, given), monkeypatch)
        assert read_whole(tx, plans) == set()
