"""Lists of bulk changes and of enqueued runs, and exports, stay on their indexes however much there is.

Here: 3,000 bulk changes of two tenants, one of them with 20,000 runs; 20,000 enqueued runs that have settled
and 40 that wait; 20,000 runs, nearly all of them completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_pipeline
from support.plans import plans_of, read_whole, rows_looked_at
from support.servers import new_database

from pipeweave.orchestrator.export import ChosenRuns, Position
from pipeweave.orchestrator.export.chosen import MOST_SLICES, RUNS_AT_ONCE, look
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.reading import bulk_changes, enqueued_list
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest, cursor_of
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

TENANT, QUIET = "plans", "plans-quiet"
# The bulk change with many runs.
LARGE = UUID(int=2_000)

_CHANGES = """
INSERT INTO bulk_changes (id, tenant_id, action, filter, options, status, total, total_is_capped, most,
    created_at, finished_at)
SELECT CAST(lpad(to_hex(n), 32, '0') AS uuid), CASE WHEN n % 100 = 1 THEN CAST(:quiet AS text)
        ELSE CAST(:tenant AS text) END, 'cancel', '{}', '{}', 'completed', 9, false, 100, now(), now()
FROM generate_series(1, 3000) AS n
"""
_CHANGED = """
INSERT INTO bulk_change_runs (bulk_id, run_id, is_changed, error_code, error, at)
SELECT CAST(:large AS uuid), CAST(lpad(to_hex(n), 32, '0') AS uuid), n % 1000 > 0,
    CASE WHEN n % 1000 = 0 THEN 'CONFLICT' END, CASE WHEN n % 1000 = 0 THEN 'it has ended' END, now()
FROM generate_series(1, 20000) AS n
"""
# Nearly all of them are another tenant's; one of ten was refused.
_ENQUEUED = """
INSERT INTO enqueued_runs (tenant_id, pipeline_id, run_token, settled_at, error_code, error, first_run_id)
SELECT CASE WHEN n % 100 = 1 THEN CAST(:quiet AS text) ELSE CAST(:tenant AS text) END, 'chain',
    CAST(n AS text), CASE WHEN n % 500 > 0 THEN now() END,
    CASE WHEN n % 10 = 1 THEN 'INVALID_INPUT' END, CASE WHEN n % 10 = 1 THEN 'no' END,
    CASE WHEN n % 10 <> 1 AND n % 500 > 0 THEN gen_random_uuid() END
FROM generate_series(1, 20000) AS n
"""
# A second apart, up to now, as ids.new_id makes their ids. One of ten is a standalone task's.
_RUNS = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input_size, inputs_hash,
    task_run_count, created_at, started_at, finished_at, error_code)
SELECT CAST(lpad(to_hex(CAST(:newest AS bigint) - (20000 - n) * 1000), 12, '0') || '70008000'
        || lpad(to_hex(n), 6, '0') || '000000' AS uuid), CAST(:tenant AS text),
    CASE WHEN n % 10 > 0 THEN 'chain' END, CASE WHEN n % 10 > 0 THEN 1 END,
    CASE WHEN n % 5000 = 1 THEN 'failed' ELSE 'completed' END, 'fail-fast', 2, repeat('0', 64), 2, now(),
    now(), now(), CASE WHEN n % 5000 = 1 THEN 'STEP_FAILED' END
FROM generate_series(1, 20000) AS n
"""


@pytest.fixture(scope="module")
def history(postgres_server: Postgres, database_template: str) -> Iterator[Database]:
    with new_database(postgres_server, "bulk-plans", database_template) as url:
        database = Database(url)
        with database.transaction() as tx:
            for tenant in (TENANT, QUIET):
                a_pipeline(tx, tenant, "a", "b")
            newest = int(tx.now.timestamp() * 1000)
            given = {"tenant": TENANT, "quiet": QUIET, "large": LARGE, "newest": newest}
            for statement in (_CHANGES, _CHANGED, _ENQUEUED, _RUNS):
                tx.execute(statement, given)
        with database.transaction() as tx:
            tx.execute("ANALYZE")
        yield database
        database.dispose()


@pytest.fixture
def tx(history: Database) -> Iterator[Transaction]:
    with history.reading() as transaction:
        yield transaction


def exported(tx: Transaction, *, is_standalone: bool = False, **filters: Any) -> Any:
    return look(tx, TENANT, ChosenRuns(None, RunFilter(**filters), is_standalone), Position())


Read = Callable[[Transaction], Any]
# The runs of a slice, their rows, and the standalone tasks between them.
ONE_LOOK = 2 * RUNS_AT_ONCE + 100
# What is read -> the read, and the rows it may look at.
READS: dict[str, tuple[Read, int]] = {
    "bulk changes": (lambda tx: bulk_changes.bulk_change_list(tx, TENANT, PageRequest()), 100),
    "bulk changes of a quiet tenant": (
        lambda tx: bulk_changes.bulk_change_list(tx, QUIET, PageRequest(20)),
        100,
    ),
    "a later page of them": (
        lambda tx: bulk_changes.bulk_change_list(
            tx, TENANT, PageRequest(50, cursor_of("bulk", UUID(int=1_000)))
        ),
        100,
    ),
    "one bulk change": (lambda tx: bulk_changes.bulk_change(tx, TENANT, LARGE), 2),
    "its runs": (lambda tx: bulk_changes.run_list(tx, TENANT, LARGE, PageRequest()), 100),
    "its runs that were changed": (
        lambda tx: bulk_changes.run_list(tx, TENANT, LARGE, PageRequest(), outcome="changed"),
        100,
    ),
    "its runs that were skipped": (
        lambda tx: bulk_changes.run_list(tx, TENANT, LARGE, PageRequest(), outcome="skipped"),
        100,
    ),
    "a later page of its runs": (
        lambda tx: bulk_changes.run_list(
            tx, TENANT, LARGE, PageRequest(50, cursor_of("bulk-runs", UUID(int=15_000))), outcome="changed"
        ),
        100,
    ),
    "an export of all runs": (lambda tx: exported(tx), ONE_LOOK),
    "an export of standalone tasks": (lambda tx: exported(tx, is_standalone=True), ONE_LOOK),
    "an export of what failed": (lambda tx: exported(tx, status=("failed", "partial")), 50),
    "an export of some pipelines": (lambda tx: exported(tx, pipeline_id=("chain", "none")), ONE_LOOK + 500),
    "an export of what nobody has": (
        lambda tx: exported(tx, metadata={"a": "b"}),
        # Each of them with the one key that is asked for, and the standalone tasks between them.
        MOST_SLICES * RUNS_AT_ONCE * 5 // 2,
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_list_reads_by_index_and_little_more_than_it_shows(
    tx: Transaction, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, most = READS[name]
    plans = plans_of(tx, lambda: read(tx), monkeypatch)
    assert read_whole(tx, plans) == set()
    assert rows_looked_at(plans) <= most


@pytest.mark.parametrize("status", ["waiting", "refused", "repeated"])
@pytest.mark.parametrize("tenant", [TENANT, QUIET])
def test_enqueued_runs_are_listed_by_index(
    tx: Transaction, tenant: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = plans_of(tx, lambda: enqueued_list(tx, tenant, PageRequest(), status), monkeypatch)
    assert read_whole(tx, plans) == set()
    # The page itself; what is counted beside it is bounded by itself.
    page, counts = plans
    assert rows_looked_at([page]) <= 200
    assert rows_looked_at([counts]) <= 10_000 + 100
