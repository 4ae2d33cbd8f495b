"""Measure what a worker of eight children takes, before it has worked and afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from benchmarks.environment import Environment
from benchmarks.figures import Figures
from benchmarks.processes import python, running
from benchmarks.sizes import Sizes
from benchmarks.usage import family, total_pss_mb

CHILDREN = 8
# So long (s) nothing happens before memory is read: until what has just begun or ended is done with it.
_REST_S = 3.0


def measure(environment: Environment, sizes: Sizes) -> Figures:
    """Start a worker of eight children beside the other one, and have it work off runs of one step."""
    from pipeweave.orchestrator.registry import worker_processes

    settings, system = environment.settings, environment.pipeweave
    assert settings.database_url is not None
    url = settings.database_url
    before = worker_processes.count_alive_at(url)
    variables = psutil.Process(system.processes["worker"]).environ()
    arguments = ("worker", "--app", "benchmarks.tasks", "--concurrency", str(CHILDREN))
    launch = python("pipeweave.cli", *arguments, variables=variables)
    log = Path(settings.data_dir).parent / "logs" / f"worker-of-{CHILDREN}.log"
    with running(launch, log, lambda: worker_processes.count_alive_at(url) > before) as worker:
        while len(family(worker)) <= CHILDREN:
            time.sleep(0.05)
        idle = _at_rest_mb(worker)
        left = sizes.worked_off
        while left > 0:
            system.triggered_batch(min(left, sizes.batch))
            left -= sizes.batch
        worked = _at_rest_mb(worker)
    unit = f"MB PSS, {CHILDREN} children, after {sizes.worked_off:,} runs"
    return Figures(unit, {"ours": worked}, {"pss_before_work": {"ours": round(idle, 1)}, "goal": "<= 200"})


def _at_rest_mb(worker: int) -> float:
    time.sleep(_REST_S)
    return total_pss_mb(worker)
