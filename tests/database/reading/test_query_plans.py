"""Lists and counts stay on their indexes when history is large: no table with data is read from end to end.

The history here: 20,000 runs of two tenants in this month's partition, nearly all of them over, ten open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_pipeline
from support.plans import plans_of, read_whole, rows_looked_at
from support.servers import new_database
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator import kept, reading, timeline
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.diagnosis import why_line
from pipeweave.orchestrator.metrics.reading import PARTS
from pipeweave.orchestrator.reading import count_of_runs
from pipeweave.orchestrator.reading import dead_letters as letters
from pipeweave.orchestrator.reading.lost_attempts import lost_attempts
from pipeweave.orchestrator.reading.scanning import MOST_ROWS
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest, cursor_of
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

TENANT, QUIET = "plans", "plans-quiet"
RUNS = 20_000
OPEN_RUNS = 10

# Ids a second apart up to now, the last 24 bits zero: as ids.new_id makes them.
_IDS = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT n, CAST(lpad(to_hex(CAST(:newest AS bigint) - (:runs - n) * 1000), 12, '0') || '70008000'
               || lpad(to_hex(n), 6, '0') || '000000' AS uuid) AS id,
       CASE WHEN n % 100 = 0 THEN CAST(:quiet AS text) ELSE CAST(:tenant AS text) END AS tenant,
       n > :runs - :open_runs AS is_open
FROM generate_series(1, :runs) AS n
"""

_RUNS = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input_size, inputs_hash,
    task_run_count, created_at, started_at, finished_at, error_code)
SELECT id, tenant, CASE WHEN n % 3 > 0 THEN 'chain' END, CASE WHEN n % 3 > 0 THEN 1 END,
    CASE WHEN is_open THEN 'running' WHEN n % 50 = 1 THEN 'failed' ELSE 'completed' END, 'fail-fast', 2,
    repeat('0', 64), 2, now(), now(), CASE WHEN is_open THEN NULL ELSE now() END,
    CASE WHEN n % 50 = 1 THEN 'STEP_FAILED' END
FROM made
"""

_TASK_RUNS = """
INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority, queue,
    is_limited, code_version, code_hash, created_at, queued_at, started_at, finished_at)
SELECT m.id, CAST(overlay(CAST(m.id AS text) PLACING lpad(to_hex(o), 2, '0') FROM 35) AS uuid), m.tenant,
    s, s, 'task', CASE WHEN is_open THEN 'queued' ELSE 'completed' END, 4, 100, 'q', false, 1,
    repeat('0', 64), now(), now(), now(), CASE WHEN is_open THEN NULL ELSE now() END
FROM made AS m, (VALUES (1, 'a'), (2, 'b')) AS steps(o, s)
"""

_EVENTS = (
    "INSERT INTO events (run_id, at, type) SELECT id, now(), t FROM made, (VALUES ('a.b'), ('c.d')) AS e(t)"
)

# One of a hundred is open; the others were retried.
_LETTERS = """
INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, pipeline_id, step_id, task_id, kind, status,
    code_version, code_hash, attempts, error, error_code, fingerprint, history, failed_at, retried_at)
SELECT id, tenant, id, id, 'chain', 'a', CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, 'task', 'failed', 1,
    repeat('0', 64), 4, '{"message": "broken"}', 'BOOM', repeat(CAST(n % 10 AS text), 64), '[]', now(),
    CASE WHEN n % 100 <> 1 THEN now() END
FROM made
"""


@pytest.fixture(scope="module")
def history(postgres_server: Postgres, database_template: str) -> Iterator[Database]:
    """A database with much history and little that is open."""
    with new_database(postgres_server, "plans", database_template) as url:
        database = Database(url)
        with database.transaction() as tx:
            for tenant in (TENANT, QUIET):
                a_pipeline(tx, tenant, "a", "b")
            newest = int(tx.now.timestamp() * 1000)
            parameters = {
                "newest": newest,
                "runs": RUNS,
                "open_runs": OPEN_RUNS,
                "tenant": TENANT,
                "quiet": QUIET,
            }
            for statement in (_IDS, _RUNS, _TASK_RUNS, _EVENTS, _LETTERS):
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


def newest_run(tx: Transaction) -> UUID:
    found: UUID = tx.execute(
        "SELECT id FROM runs WHERE tenant_id = :t AND pipeline_id IS NOT NULL ORDER BY id DESC LIMIT 1",
        {"t": TENANT},
    ).scalar_one()
    return found


def dead_letters(tx: Transaction, status: str = "open", **filters: Any) -> Document:
    return letters.dead_letter_list(tx, TENANT, PageRequest(), LetterFilter(**filters), status=status)


def run_list(tx: Transaction, **filters: Any) -> Document:
    return reading.run_list(tx, TENANT, PageRequest(), kept.RunFilter(**filters))


def task_run_list(tx: Transaction, **filters: Any) -> Document:
    return reading.task_run_list(tx, TENANT, PageRequest(), reading.TaskRunFilter(**filters))


Read = Callable[[Transaction], Any]
# Each run is looked at once by its place in the list, and once as a row.
LOOKED_THROUGH = 3 * MOST_ROWS
# The newest of the list, and of the three statuses that there are.
COUNTED = 4 * count_of_runs.MOST

# What is read -> the read, and the rows it may look at.
READS: dict[str, tuple[Read, int]] = {
    "runs": (lambda tx: reading.run_list(tx, TENANT, PageRequest()), 200),
    "runs of a quiet tenant": (lambda tx: reading.run_list(tx, QUIET, PageRequest()), 200),
    "runs of a pipeline": (lambda tx: run_list(tx, pipeline_id=("chain",)), 200),
    "runs that failed": (lambda tx: run_list(tx, status=("failed",)), 300),
    "runs that run": (lambda tx: run_list(tx, status=("running",)), 200),
    "runs that a schedule began": (
        lambda tx: run_list(tx, triggered_kind="schedule"),
        200,
    ),
    "runs of several statuses": (lambda tx: run_list(tx, status=("failed", "running", "partial")), 700),
    "runs of several pipelines": (lambda tx: run_list(tx, pipeline_id=("chain", "nothing")), 300),
    "runs by status, counted": (lambda tx: reading.run_counts(tx, TENANT, kept.RunFilter()), COUNTED),
    "runs of a pipeline, counted": (
        lambda tx: reading.run_counts(tx, TENANT, kept.RunFilter(pipeline_id=("chain",))),
        COUNTED,
    ),
    "runs by a value of their metadata": (lambda tx: run_list(tx, metadata={"a": "b"}), LOOKED_THROUGH),
    "task runs of a task": (lambda tx: task_run_list(tx, task_id="a"), 4_000),
    "standalone task runs": (lambda tx: task_run_list(tx, is_standalone=True), 4_000),
    "task runs that are queued": (lambda tx: task_run_list(tx, status="queued"), 1_000),
    "a grid": (lambda tx: reading.grid(tx, TENANT, "chain", reading.Window()), 300),
    "pipelines with their newest runs": (
        lambda tx: reading.pipeline_list(tx, TENANT, PageRequest(), recent=20),
        200,
    ),
    "a search by id": (
        lambda tx: reading.search(tx, TENANT, ids.show(ids.RUN, newest_run(tx))[5:17]),
        300,
    ),
    "runs of an hour": (
        lambda tx: run_list(
            tx,
            created_after=tx.now - timedelta(hours=2),
            created_before=tx.now - timedelta(hours=1),
        ),
        200,
    ),
    "runs by the beginning of an id": (
        lambda tx: run_list(tx, id_prefix=ids.show(ids.RUN, newest_run(tx))[:14]),
        200,
    ),
    "task runs by the beginning of an id": (
        lambda tx: reading.find_task_runs(
            tx, TENANT, ids.show(ids.TASK_RUN, ids.task_run_id(newest_run(tx), 1))[:14], 10
        ),
        200,
    ),
    "dead letters by the beginning of an id": (
        lambda tx: letters.dead_letter_list(
            tx,
            TENANT,
            PageRequest(),
            LetterFilter(),
            status="all",
            id_prefix=ids.show(ids.RUN, newest_run(tx))[5:14],
        ),
        200,
    ),
    "a page deep in the runs": (
        lambda tx: reading.run_list(
            tx,
            TENANT,
            PageRequest(
                50, cursor_of("runs", ids.first_id_at(int((tx.now - timedelta(hours=3)).timestamp() * 1000)))
            ),
        ),
        200,
    ),
    "one run": (lambda tx: reading.run(tx, TENANT, newest_run(tx)), 100),
    "its task runs": (lambda tx: reading.run_task_runs(tx, TENANT, newest_run(tx), PageRequest()), 100),
    "its events": (lambda tx: reading.run_events(tx, TENANT, newest_run(tx), PageRequest()), 100),
    "its steps": (lambda tx: reading.step_states(tx, TENANT, newest_run(tx)), 100),
    "its log": (
        lambda tx: reading.chosen_logs(tx, TENANT, newest_run(tx), VALUES.backends, None),
        100,
    ),
    "its ledger": (lambda tx: timeline.ledger(tx, TENANT, newest_run(tx)), 100),
    "its timeline": (lambda tx: timeline.timeline(tx, TENANT, newest_run(tx), PageRequest(), bins=60), 100),
    "a task run": (lambda tx: reading.task_run(tx, TENANT, ids.task_run_id(newest_run(tx), 1)), 100),
    "dead letters": (lambda tx: dead_letters(tx), 700),
    "dead letters that are alike": (lambda tx: dead_letters(tx, fingerprint="1" * 64), 700),
    "dead letters of a task": (lambda tx: dead_letters(tx, task_id="b"), 700),
    "groups of dead letters": (
        lambda tx: letters.dead_letter_groups(tx, TENANT, 10, LetterFilter()),
        700,
    ),
    "redrives": (lambda tx: letters.redrive_list(tx, TENANT, PageRequest()), 100),
    "past runs for a forecast": (
        lambda tx: reading.past_runs(tx, TENANT, pipelines.get(tx, TENANT, "chain").spec),
        1_100,
    ),
    "the attempts of a run": (
        lambda tx: reading.run_attempts(tx, TENANT, newest_run(tx), PageRequest()),
        200,
    ),
    "two runs beside each other": (
        lambda tx: reading.compare_runs(tx, TENANT, newest_run(tx), newest_run(tx)),
        200,
    ),
    "queue items": (lambda tx: reading.queue_items(tx, TENANT, PageRequest()), 500),
    "queue items with what they wait for": (
        lambda tx: why_line.items_with_reasons(tx, TENANT, PageRequest(), lambda _: {}),
        1_500,
    ),
    "queues": (lambda tx: reading.queues(tx, TENANT, PageRequest()), 500),
    "what was lost with a worker": (
        lambda tx: lost_attempts(tx, TENANT, "worker-1@host:1:ab", is_celery=True, most=100),
        100,
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


@pytest.mark.parametrize(("name", "read"), PARTS)
def test_metrics_are_read_by_index(
    tx: Transaction, name: str, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = plans_of(tx, lambda: read(tx), monkeypatch)
    assert read_whole(tx, plans) == set()
    # The open dead letters; of everything else, little is open.
    assert rows_looked_at(plans) <= (1_000 if name == "dead_letters" else 300)


def test_the_queue_counts_open_rows_by_index(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended is counted over a day, by the ids of its runs; what is open, through partial indexes."""
    plans = plans_of(tx, lambda: reading.queue_status(tx, TENANT), monkeypatch)
    assert read_whole(tx, plans[:1]) == set()
    assert rows_looked_at(plans[:1]) <= 200
