"""Insert runs as wide as runs may be, and measure what it takes to look at them.

`python -m benchmarks.wide_runs` prints a line for each answer. Rows, attempts and events are those that such
runs leave; the pipeline has the steps of the run.
"""

from __future__ import annotations

import gzip
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import psycopg2

from benchmarks.processes import running
from pipeweave.orchestrator.deployment import migrate
from pipeweave.orchestrator.registry import Registration, TaskRegistration, pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.orchestrator.timeline import items, ledger, timeline
from pipeweave.orchestrator.timeline.items import map_of_run, matrix_of
from pipeweave.size_limits import MAX_MAP_ITEMS, MAX_STEPS
from pipeweave.spec.document import parse_spec
from pipeweave.up import postgres
from pipeweave.up.ports import free_port
from pipeweave.up.postgres import Postgres

TENANT = "default"
_SERVICE = Registration("python", "1.0.0", "python", None, [TaskRegistration("noop", "4" * 64)])
# How often each answer is read.
TIMES = 7

_RUN = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input, input_size,
    inputs_hash, task_run_count, created_at, started_at, finished_at)
VALUES (%(id)s, %(tenant)s, %(pipeline)s, 1, 'completed', 'fail-fast', '{}', 2, repeat('4', 64), %(count)s,
    now() - interval '1 hour', now() - interval '1 hour', now())
"""
# Ordinals are in hexadecimal at the end of an id. Items follow each other; one in a hundred was tried twice.
_TASK_RUNS = """
INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, map_index, map_parent, map_first,
    map_count, status, attempt, max_attempts, priority, queue, is_limited, code_version, code_hash, output,
    output_size, output_hash, worker, created_at, queued_at, started_at, heartbeat_at, finished_at)
SELECT %(id)s, CAST(overlay(%(text)s PLACING lpad(to_hex(n), 6, '0') FROM 31) AS uuid), %(tenant)s,
    s.step, 'noop', s.kind, CASE WHEN s.kind = 'item' THEN n - 2 END, CASE WHEN s.kind = 'item' THEN 1 END,
    CASE WHEN s.kind = 'map' THEN 2 END, CASE WHEN s.kind = 'map' THEN %(count)s - 1 END, 'completed',
    CASE WHEN n %% 100 = 7 THEN 2 ELSE 1 END, 4, 100, 'pipeweave.default.python', false, 1, repeat('4', 64),
    'null', 4, repeat('7', 64), 'past', now() - interval '1 hour', s.at, s.at + interval '2 ms',
    s.at + interval '2 ms', s.at + (3 + n * 7919 %% 400) * interval '1 ms'
FROM generate_series(1, %(count)s) AS n CROSS JOIN LATERAL (SELECT
    CASE WHEN %(is_map)s THEN 'm' ELSE 's' || n END,
    CASE WHEN NOT %(is_map)s THEN 'task' WHEN n = 1 THEN 'map' ELSE 'item' END,
    now() - interval '1 hour' + n * interval '3599 s' / %(count)s) AS s(step, kind, at)
"""
_ATTEMPTS = """
INSERT INTO attempts (run_id, task_run_id, number, status, worker, code_version, error, error_code,
    started_at, finished_at)
SELECT t.run_id, t.id, 1, 'failed', 'past', 1, '{}', 'BOOM', t.queued_at - interval '9 ms', t.queued_at
FROM task_runs AS t WHERE t.run_id = %(id)s AND t.attempt = 2 AND t.kind <> 'map'
"""
_EVENTS = """
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT t.run_id, t.queued_at + e.after, e.type, CASE WHEN e.n > 1 THEN t.id END, t.attempt,
    CASE WHEN e.n = 1 THEN jsonb_build_object('ordinals', jsonb_build_array(jsonb_build_array(t.n, t.n))) END
FROM (SELECT x.*, row_number() OVER (ORDER BY x.id) AS n FROM task_runs AS x WHERE x.run_id = %(id)s) AS t,
    (VALUES (1, interval '0 ms', 'task_runs.queued'), (2, interval '2 ms', 'task_run.started'),
            (3, interval '3 ms', 'task_run.completed')) AS e(n, after, type)
ORDER BY t.n, e.n
"""


def insert(database: Database, count: int, *, is_map: bool, tenant: str = TENANT) -> UUID:
    """Insert a completed run of so many steps in a chain, or of one map with so many items; its id."""
    name = f"{'map' if is_map else 'chain'}-{count}"
    steps = [{"id": "m", "task": "noop", "map": {"over": "${input.list}"}}]
    if not is_map:
        steps = [
            {"id": f"s{n}", "task": "noop", "needs": [f"s{n - 1}"] if n > 1 else []}
            for n in range(1, count + 1)
        ]
    # PostgreSQL ends a session that is silent in a transaction for seconds; to read 5,000 steps takes long.
    spec = parse_spec({"id": name, "steps": steps})
    with database.transaction() as tx:
        service_registration.register(tx, tenant, _SERVICE)
        pipelines.store(tx, tenant, spec, source="api")
        run_id = tx.new_id()
    rows = count + 1 if is_map else count
    given = {"id": str(run_id), "text": str(run_id), "tenant": tenant, "pipeline": name}
    with closing(psycopg2.connect(database.url)) as connection, connection, connection.cursor() as cursor:
        for statement in (_RUN, _TASK_RUNS, _ATTEMPTS, _EVENTS):
            cursor.execute(statement, {**given, "count": rows, "is_map": is_map})
        cursor.execute("ANALYZE runs, task_runs, attempts, events")
    return run_id


def main() -> int:
    """Measure, and print a line for each answer: the time to make it, and its size."""
    with tempfile.TemporaryDirectory() as folder:
        passwords = secrets.token_hex(16), secrets.token_hex(16)
        server = Postgres(Path(folder) / "postgres", free_port(), *passwords)
        server.prepare()
        log = Path(folder) / "postgres.log"
        with running(server.launch(), log, server.is_ready, postgres.STOP_SIGNAL):
            migrate.upgrade(server.url)
            for line in measured(Database(server.url)):
                print(line)
    return 0


def measured(database: Database) -> Iterator[str]:
    """A line for each answer about wide runs."""
    chain, wide = insert(database, MAX_STEPS, is_map=False), insert(database, MAX_MAP_ITEMS, is_map=True)
    page = PageRequest(1_000)
    reads: dict[str, Callable[[Transaction], Any]] = {
        "ledger, 5,000 steps": lambda tx: ledger(tx, TENANT, chain),
        "timeline, 1,000 of 5,000 steps": lambda tx: timeline(tx, TENANT, chain, page, bins=120),
        "ledger, 100,000 items": lambda tx: ledger(tx, TENANT, wide),
        "timeline, 100,000 items": lambda tx: timeline(tx, TENANT, wide, page, bins=120),
        "matrix, 100,000 items": lambda tx: matrix_of(tx, map_of_run(tx, TENANT, wide, "m")),
        "slowest items of 100,000": lambda tx: items(
            tx, TENANT, wide, "m", PageRequest(), view="list", bins=1, order="slowest"
        ),
    }
    for name, read in reads.items():
        took, answer = [], b""
        for _ in range(TIMES):
            began = time.perf_counter()
            with database.reading() as tx:
                found = read(tx)
            took.append(time.perf_counter() - began)
            answer = orjson.dumps(found)
        small = len(gzip.compress(answer, 5)) / 1_000
        median = 1_000 * statistics.median(took)
        yield f"{name:<34}{median:8.0f} ms {len(answer) / 1_000:9.1f} KB {small:9.1f} KB with gzip"


if __name__ == "__main__":
    sys.exit(main())
