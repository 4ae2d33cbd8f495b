"""Reading statistics costs what is shown, however many rows of statistics and of history there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.factories import register
from support.plans import plans_of, read_whole, rows_looked_at
from support.servers import new_database

from pipeweave.orchestrator.domain.queue_names import service_queue
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.telemetry import statistics
from pipeweave.orchestrator.telemetry.statistics import StatsWindow, answers, open_queue, rows, window
from pipeweave.orchestrator.telemetry.statistics.ageing import EXPIRING, delete
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

TENANT = "plans"
ZEROS = {
    "run_stats": "0, 0, 0, 0, 0, 0",
    "task_stats": "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}'",
}
# 40 pipelines or tasks, 1,400 hours each: 56,000 rows.
FILL = """
INSERT INTO {table} SELECT '{tenant}', '{scope}', 'it-' || n, 'hour', date_trunc('hour', now())
    - h * interval '1 hour', {zeros}, '{{}}', 0, NULL, NULL, '{{}}', 0, NULL, NULL
FROM generate_series(1, 40) AS n, generate_series(0, 1399) AS h
"""


@pytest.fixture(scope="module")
def filled(postgres_server: Postgres, database_template: str) -> Iterator[Database]:
    with new_database(postgres_server, "statistics-plans", database_template) as url:
        database = Database(url)
        with database.transaction() as tx:
            for table, scope in (("run_stats", "pipeline"), ("task_stats", "task")):
                tx.execute(FILL.format(table=table, scope=scope, tenant=TENANT, zeros=ZEROS[table]))
            register(tx, TENANT, *(f"it-{number}" for number in range(1, 41)))
            tx.execute("ANALYZE run_stats, task_stats")
        yield database
        database.dispose()


def day(tx: Transaction) -> StatsWindow:
    return window(tx.now, None, None, most=statistics.POINTS)


IDS = [f"it-{number}" for number in range(1, 26)]
READS: dict[str, tuple[Callable[[Transaction], Any], int]] = {
    "the pipelines that fail most": (
        lambda tx: answers.by_pipeline(tx, TENANT, day(tx), (), most=5, recent=20),
        40 * 30,
    ),
    "the tenant's runs": (lambda tx: answers.runs(tx, TENANT, window(tx.now, None, None)), 50),
    "a page of pipelines": (lambda tx: rows.pipeline_rows(tx, TENANT, IDS, day(tx)), 25 * 30),
    "a page of tasks": (lambda tx: rows.task_rows(tx, TENANT, IDS, day(tx)), 25 * 30),
    "what left a queue": (
        lambda tx: answers.by_queue(tx, TENANT, day(tx), [service_queue(TENANT, "python")]),
        40 * 30,
    ),
    "strips": (lambda tx: rows.last_runs(tx, TENANT, IDS), 50),
    "the totals": (lambda tx: statistics.totals(tx), 50),
    "how current it is": (lambda tx: statistics.as_of(tx), 50),
    "the queue": (lambda tx: open_queue.queue(tx, TENANT), 50),
    "what has expired": (lambda tx: [delete(tx, each) for each in EXPIRING], 50),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_looks_at_what_it_shows(filled: Database, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, most = READS[name]
    with filled.transaction() as tx:
        plans = plans_of(tx, lambda: read(tx), monkeypatch)
        assert read_whole(tx, plans) == set()
    assert rows_looked_at(plans) <= most
