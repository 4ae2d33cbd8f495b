"""Measure what a tick costs for schedules that are not due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median

import psycopg2

from benchmarks.environment import Environment
from benchmarks.figures import Figures, percentile
from benchmarks.sizes import Sizes

COUNT = 10_000

_STORE = """
INSERT INTO schedules (tenant_id, id, pipeline_id, cron, next_scheduled_at, next_fire_at, created_at,
    updated_at)
SELECT p.tenant_id, 'idle-' || n, p.id, '0 0 1 1 *', now() + interval '1 day' + n * interval '1 s',
    now() + interval '1 day' + n * interval '1 s', now(), now()
FROM (SELECT tenant_id, id FROM pipelines ORDER BY tenant_id, id LIMIT 1) AS p,
    generate_series(1, %(count)s) AS n
"""
_REMOVE = "DELETE FROM schedules WHERE id LIKE 'idle-%'"


def measure(environment: Environment, sizes: Sizes) -> Figures:
    """Do the chore of schedules, and whole ticks, without schedules and with so many that are not due."""
    from pipeweave.orchestrator.deployment import Deployment
    from pipeweave.orchestrator.recovery import tick
    from pipeweave.orchestrator.starts.schedules import firing

    deployment = Deployment.open(environment.settings, pool_size=1)
    try:
        ticks = _p50_ms(lambda: tick.run_once(deployment), sizes.looked)
        with _schedules(environment.settings.database_url):
            chore = _samples(lambda: firing.run_once(deployment.database, deployment.values), sizes.looked)
            with_them = _p50_ms(lambda: tick.run_once(deployment), sizes.looked)
    finally:
        deployment.close()
    more = {
        "p50": round(1000 * median(chore), 3),
        "tick_p50": {"without": round(ticks, 3), "with": round(with_them, 3)},
        "goal": "<= 5",
    }
    return Figures("ms, p95, the chore of schedules", {"ours": 1000 * percentile(chore, 95)}, more)


def _samples(work: Callable[[], object], count: int) -> list[float]:
    times = []
    for _ in range(count + 1):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    # The first one connects and compiles.
    return times[1:]


def _p50_ms(work: Callable[[], object], count: int) -> float:
    return 1000 * median(_samples(work, count))


@contextmanager
def _schedules(url: str | None) -> Iterator[None]:
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(_STORE, {"count": COUNT})
            cursor.execute("ANALYZE schedules")
            try:
                yield
            finally:
                cursor.execute(_REMOVE)
