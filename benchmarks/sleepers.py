"""Measure what sleeping runs cost while they sleep, and how many a second wake when all are due at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg2

from benchmarks.environment import Environment
from benchmarks.figures import Figures, percentile, seconds_of
from benchmarks.systems import BenchmarkFailed
from benchmarks.usage import idle

if TYPE_CHECKING:
    from pipeweave.orchestrator.deployment import Deployment

# Runs that one request starts.
_BATCH = 1_000
# Runs stored a second, at least: until they are due there is time to store all of them at that pace.
_STORED_PER_S = 400
# Ticks of each measuring.
_TICKS = 50
# Seconds between two of them while the runs wake.
_PAUSE_S = 0.2
# Seconds in which all runs must have woken, for each thousand of them; and for what surrounds it.
_WAKE_S, _MORE_S = 10.0, 60.0

_DOCUMENT = {"steps": [{"id": "nap", "sleepUntil": "${input.at}"}]}
_ASLEEP = "SELECT count(*) FROM waits WHERE kind = 'timer'"
_WOKEN = """
SELECT extract(epoch FROM max(r.finished_at)) FROM runs AS r WHERE r.pipeline_id = 'sleepers'
"""


def measure(environment: Environment, count: int, idle_s: float) -> Figures:
    """Look at idle processes and ticks without and with this many sleeping runs; then wake all of them.

    Args:
        idle_s: seconds to look at idle processes.

    Raises:
        BenchmarkFailed: the runs were not stored before they were due, or did not wake.
    """
    from pipeweave.orchestrator.deployment import Deployment

    deployment = Deployment.open(environment.settings, pool_size=1)
    try:
        without = _at_rest(environment, deployment, idle_s)
        due = time.time() + count / _STORED_PER_S + _MORE_S + 2 * idle_s
        environment.pipeweave.slept(_DOCUMENT, datetime.fromtimestamp(due, UTC).isoformat(), count, _BATCH)
        beside = _at_rest(environment, deployment, idle_s)
        if time.time() >= due:
            raise BenchmarkFailed(f"{count} runs were not stored before they were due")
        time.sleep(max(0.0, due - time.time()))
        ticks = _ticks_until(deployment, lambda: _asleep(environment) == 0, due, count)
        woken_s = _scalar(environment, _WOKEN) - due
    finally:
        deployment.close()
    more = {
        "count": count,
        "seconds": round(woken_s, 3),
        "without": without,
        "with": beside,
        "tick_ms_while_they_wake": {"p50": round(1000 * percentile(ticks, 50), 3), "p95": _p95_ms(ticks)},
        "goal": ">= 500",
    }
    return Figures("wake-ups/s, all due at once", {"ours": count / woken_s}, more)


def _at_rest(environment: Environment, deployment: Deployment, idle_s: float) -> dict[str, object]:
    usage = idle([environment.pipeweave], idle_s)["ours"]
    ticks = [_tick_s(deployment) for _ in range(_TICKS)][1:]
    by_process = {name: round(percent, 3) for name, percent in usage.cpu_percent.items()}
    return {"cpu_percent": round(sum(usage.cpu_percent.values()), 3), "cpu_by_process": by_process} | {
        "tick_p95_ms": _p95_ms(ticks)
    }


def _ticks_until(
    deployment: Deployment, is_over: Callable[[], bool], began: float, count: int
) -> list[float]:
    seen = []
    until = began + _WAKE_S * count / 1_000 + _MORE_S
    while not is_over():
        if time.time() > until:
            raise BenchmarkFailed(f"not all of {count} runs woke")
        seen.append(_tick_s(deployment))
        time.sleep(_PAUSE_S)
    return seen


def _tick_s(deployment: Deployment) -> float:
    from pipeweave.orchestrator.recovery import tick

    return seconds_of(lambda: tick.run_once(deployment))


def _asleep(environment: Environment) -> float:
    return _scalar(environment, _ASLEEP)


def _scalar(environment: Environment, statement: str) -> float:
    with closing(psycopg2.connect(environment.settings.database_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
    assert row is not None
    return float(row[0] or 0)


def _p95_ms(seconds: list[float]) -> float:
    return round(1000 * percentile(seconds, 95), 3) if seconds else 0.0
