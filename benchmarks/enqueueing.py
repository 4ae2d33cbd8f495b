"""Measure runs that are enqueued in the caller's own transaction: from its commit to the first task."""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median
from typing import Any

import psycopg2

from benchmarks.environment import Environment
from benchmarks.figures import Figures, percentile
from benchmarks.sizes import Sizes
from pipeweave import enqueue, enqueue_many, ids

# A start takes milliseconds; after so long (s) something is wrong.
DEADLINE_S = 30.0
# More samples than of a list: a p95 is asked for, and a start may be anywhere between two looks.
SAMPLES_PER_LOOK = 5

_STARTED = """
SELECT t.started_at FROM task_runs AS t WHERE t.run_id = %s AND t.started_at IS NOT NULL
ORDER BY t.started_at LIMIT 1
"""


def measure(environment: Environment, sizes: Sizes) -> Figures:
    """Enqueue runs of one step one by one, each in a transaction of its own, and many with one statement."""
    environment.pipeweave.single()
    with closing(psycopg2.connect(environment.settings.database_url)) as connection:
        runs: list[str] = []
        starts = [_start_ms(connection, runs) for _ in range(sizes.looked * SAMPLES_PER_LOOK)]
        began = time.perf_counter()
        runs += [_enqueue(connection) for _ in range(sizes.triggered)]
        one_by_one = sizes.triggered / (time.perf_counter() - began)
        began = time.perf_counter()
        with connection:
            runs += enqueue_many(connection, "single", [{}] * sizes.batch)
        at_once = sizes.batch / (time.perf_counter() - began)
        began = time.perf_counter()
        environment.pipeweave.wait_for(runs)
        drained = (sizes.triggered + sizes.batch) / (time.perf_counter() - began)
    more = {
        "p50": round(median(starts), 3),
        "enqueued_per_s": {"one by one": round(one_by_one), "with one statement": round(at_once)},
        "done_per_s": round(drained),
        "goal": "<= 50",
    }
    return Figures("ms, p95, from the commit to the first task", {"ours": percentile(starts, 95)}, more)


def _enqueue(connection: Any) -> str:
    with connection:
        return enqueue(connection, "single")


def _start_ms(connection: Any, runs: list[str]) -> float:
    """Milliseconds from a commit to the start of the run's task, by PostgreSQL's clock."""
    with connection, connection.cursor() as cursor:
        run = enqueue(connection, "single")
        runs.append(run)
        cursor.execute("SELECT clock_timestamp()")
        [(committed,)] = cursor.fetchall()
    return float((_started_at(connection, run) - committed).total_seconds() * 1000)


def _started_at(connection: Any, run: str) -> Any:
    began = time.monotonic()
    while time.monotonic() - began < DEADLINE_S:
        with connection, connection.cursor() as cursor:
            cursor.execute(_STARTED, (str(ids.read(ids.RUN, run)),))
            if rows := cursor.fetchall():
                return rows[0][0]
        time.sleep(0.002)
    raise TimeoutError(f"run {run} did not start within {DEADLINE_S:g} s")
