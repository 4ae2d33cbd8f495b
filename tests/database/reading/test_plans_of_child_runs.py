"""Lists of runs do not read past child runs, however many of them are the newest runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_pipeline
from support.plans import plans_of, read_whole, rows_looked_at
from support.servers import new_database

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.reading import runs_of_steps
from pipeweave.orchestrator.reading.runs_of_steps import TaskRunSeen
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

TENANT = "plans-of-children"
TOP_RUNS, CHILDREN = 200, 20_000
PAGE = PageRequest(20)
# Rows of runs that a page of 20 may look at: those of both kinds, and what belongs to them.
FEW = 200

# Ids a second apart up to now. The last runs without a parent are the parent of all others.
_IDS = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT n, CAST(lpad(to_hex(CAST(:newest AS bigint) - (:runs - n) * 100), 12, '0') || '70008000'
               || lpad(to_hex(n), 6, '0') || '000000' AS uuid) AS id
FROM generate_series(1, :runs) AS n
"""
_RUNS = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input_size, inputs_hash,
    task_run_count, created_at, started_at, finished_at, parent_run_id, parent_task_run_id, root_run_id,
    depth)
SELECT m.id, :tenant, 'chain', 1, 'completed', 'fail-fast', 2, repeat('0', 64), 2, now(), now(), now(),
    p.id, p.step, p.id, CASE WHEN p.id IS NOT NULL THEN 1 END
FROM made AS m LEFT JOIN (
    SELECT id, CAST(overlay(CAST(id AS text) PLACING '01' FROM 35) AS uuid) AS step FROM made WHERE n = :top
) AS p ON m.n > :top
"""


@pytest.fixture(scope="module")
def history(postgres_server: Postgres, database_template: str) -> Iterator[Database]:
    """A database with a run whose thousands of children are the newest runs."""
    with new_database(postgres_server, "plans-of-children", database_template) as url:
        database = Database(url)
        with database.transaction() as tx:
            a_pipeline(tx, TENANT, "a", "b")
            newest = int(tx.now.timestamp() * 1000)
            parameters = {"newest": newest, "runs": TOP_RUNS + CHILDREN, "top": TOP_RUNS, "tenant": TENANT}
            for statement in (_IDS, _RUNS):
                tx.execute(statement, parameters)
        with database.transaction() as tx:
            tx.execute("ANALYZE")
        yield database
        database.dispose()


@pytest.fixture
def tx(history: Database) -> Iterator[Transaction]:
    """A reading transaction over the history."""
    with history.reading() as transaction:
        yield transaction


def parent(tx: Transaction) -> UUID:
    found: UUID = tx.execute("SELECT parent_run_id FROM runs ORDER BY id DESC LIMIT 1").scalar_one()
    return found


def step(tx: Transaction) -> UUID:
    found: UUID = tx.execute("SELECT parent_task_run_id FROM runs ORDER BY id DESC LIMIT 1").scalar_one()
    return found


def listed(tx: Transaction, **chosen: Any) -> Any:
    page = reading.run_list(tx, TENANT, PAGE, RunFilter(**chosen))
    assert len(page["items"]) == PAGE.limit
    return page


@pytest.mark.parametrize(
    "read",
    [
        lambda tx: listed(tx),
        lambda tx: listed(tx, pipeline_id=("chain",)),
        lambda tx: listed(tx, status=("completed",)),
        lambda tx: listed(tx, has_children=True),
        lambda tx: listed(tx, has_children=True, pipeline_id=("chain",)),
        lambda tx: listed(tx, parent=parent(tx)),
        lambda tx: listed(tx, parent=parent(tx), parent_step=step(tx)),
        lambda tx: reading.pipeline_list(tx, TENANT, PAGE),
    ],
    ids=["all", "pipeline", "status", "with", "with pipeline", "of run", "of step", "pipelines"],
)
def test_a_page_looks_at_few_runs(
    tx: Transaction, read: Callable[[Transaction], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pipelines.get(tx, TENANT, "chain").version == 1
    plans = plans_of(tx, lambda: read(tx), monkeypatch)
    assert read_whole(tx, plans) == set()
    assert rows_looked_at(plans) <= FEW


def test_the_latest_run_of_a_step_is_found_among_all_its_runs(
    tx: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, task_run = parent(tx), step(tx)

    def read() -> None:
        seen = TaskRunSeen(task_run, "pipeweave:pipeline", "body", "waiting", None)
        shown = runs_of_steps.of_task_runs(tx, run_id, [seen])
        assert shown[task_run].run is not None

    # Nothing is counted for a step that is no loop.
    assert rows_looked_at(plans_of(tx, read, monkeypatch)) <= FEW
