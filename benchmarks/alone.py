"""Measure PipeWeave alone: what plain Celery does not have, or is not measured for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median, quantiles

from benchmarks import enqueueing, idle_schedules, open_pages, watchers, worker_memory
from benchmarks.environment import Environment
from benchmarks.figures import Benchmark, Figures, seconds_of
from benchmarks.sizes import Sizes
from benchmarks.tasks import WORK_S
from benchmarks.usage import largest_during

# The statement by which a worker claims task runs: it moves them from queued to running.
CLAIM = r"SET status = 'running'.*t\.status \|\| '' = 'queued'"


def benchmarks(sizes: Sizes) -> list[Benchmark]:
    """List the benchmarks in these sizes."""
    return [
        Benchmark("trigger", lambda environment: _trigger(environment, sizes)),
        Benchmark("trigger_batch", lambda environment: _trigger_batch(environment, sizes)),
        Benchmark("chain_10ms", lambda environment: _worked(environment, sizes)),
        Benchmark("conditions", lambda environment: _conditions(environment, sizes)),
        Benchmark("claim", lambda environment: _claim(environment, sizes)),
        Benchmark("memory", lambda environment: _memory(environment, sizes)),
        Benchmark("worker_of_8", lambda environment: worker_memory.measure(environment, sizes)),
        Benchmark("run_list", lambda environment: _run_list(environment, sizes)),
        Benchmark("run_page", lambda environment: _run_page(environment, sizes)),
        Benchmark("tick", lambda environment: _tick(environment, sizes)),
        Benchmark("schedules", lambda environment: idle_schedules.measure(environment, sizes)),
        Benchmark("enqueue", lambda environment: enqueueing.measure(environment, sizes)),
        Benchmark("watchers", lambda environment: watchers.measure(environment, sizes)),
        Benchmark("pages", lambda environment: open_pages.measure(environment, sizes)),
    ]


def _trigger(environment: Environment, sizes: Sizes) -> Figures:
    """Count the runs that one API process accepts while the worker executes them."""
    count = sizes.triggered
    rates = [count / environment.pipeweave.triggered(count, sizes.clients) for _ in range(sizes.rounds)]
    return _median("runs/s accepted", rates, ">= 300")


def _trigger_batch(environment: Environment, sizes: Sizes) -> Figures:
    rates = [sizes.batch / environment.pipeweave.triggered_batch(sizes.batch) for _ in range(sizes.rounds)]
    return _median("runs/s accepted", rates, ">= 2,000")


def _worked(environment: Environment, sizes: Sizes) -> Figures:
    """Run steps of 10 ms: the wall time beyond the time of the steps themselves."""
    pipeweave, work_s = environment.pipeweave, sizes.worked * WORK_S
    times = [seconds_of(lambda: pipeweave.worked(sizes.worked)) / work_s for _ in range(sizes.rounds)]
    return _median(f"wall / work, {sizes.worked} steps", times, "<= 1.15")


def _conditions(environment: Environment, sizes: Sizes) -> Figures:
    """Compare a chain with conditions and parameters by expression with a plain chain, in turns."""
    pipeweave = environment.pipeweave
    pipeweave.chain_with_conditions(sizes.chain)
    ratios = []
    for _ in range(3 * sizes.rounds):
        plain = seconds_of(lambda: pipeweave.chain(sizes.chain))
        ratios.append(seconds_of(lambda: pipeweave.chain_with_conditions(sizes.chain)) / plain)
    return _median(f"x of a plain chain of {sizes.chain}", ratios, "<= 1.2")


def _claim(environment: Environment, sizes: Sizes) -> Figures:
    """PostgreSQL's time for the statement by which a worker claims task runs, under full load."""
    with environment.log.recording() as recorded:
        for _ in range(min(sizes.rounds, 2)):
            environment.pipeweave.diamonds(sizes.diamonds, sizes.clients)
            environment.pipeweave.fan(sizes.fan)
        environment.pipeweave.mapped(sizes.mapped)
        environment.pipeweave.triggered(sizes.triggered, sizes.clients)
    took = recorded.of(CLAIM)
    more = {"claims": len(took), "p50": round(median(took), 3), "max": round(max(took), 3), "goal": "< 50"}
    return Figures("ms, p99", {"ours": _percentile(took, 99)}, more)


def _memory(environment: Environment, sizes: Sizes) -> Figures:
    """The memory of the largest process while a wide map runs."""
    with largest_during(environment.pipeweave) as seen:
        environment.pipeweave.mapped(sizes.mapped)
    by_process = {name: round(size, 1) for name, size in seen.items()}
    return Figures(
        f"MB PSS, largest process in map_{sizes.mapped}",
        {"ours": max(seen.values())},
        {"pss_mb": by_process, "goal": "<= 200"},
    )


def _run_list(environment: Environment, sizes: Sizes) -> Figures:
    """List the newest runs, the failed runs, and the runs of a pipeline that has nearly all: the slowest
    list.
    """
    lists = {
        "newest": "/api/runs?limit=50",
        "failed": "/api/runs?limit=50&status=failed",
        "of a pipeline": "/api/runs?limit=50&pipelineId=single",
        "of a pipeline, failed": "/api/runs?limit=50&pipelineId=single&status=failed",
    }
    p95 = {name: _p95_ms(environment.pipeweave.looked(path, sizes.looked)) for name, path in lists.items()}
    more = {"lists": {name: round(each, 3) for name, each in p95.items()}, "goal": "<= 100"}
    return Figures("ms, p95, the slowest list", {"ours": max(p95.values())}, more)


def _run_page(environment: Environment, sizes: Sizes) -> Figures:
    """Read a run, its task runs and its events: for a run of one step and for a wide map."""
    parts = {}
    pipeweave = environment.pipeweave
    for name, run_id in (("one step", pipeweave.single()), ("map", pipeweave.wide(sizes.mapped))):
        for part in ("", "/task-runs", "/events"):
            path = f"/api/runs/{run_id}{part}"
            parts[f"{name}{part}"] = round(_p95_ms(pipeweave.looked(path, sizes.looked)), 3)
    return Figures(
        "ms, p95, the slowest part", {"ours": max(parts.values())}, {"parts": parts, "goal": "<= 100"}
    )


def _tick(environment: Environment, sizes: Sizes) -> Figures:
    """Run ticks that find nothing to do, in a separate process beside the beat."""
    from pipeweave.orchestrator.deployment import Deployment
    from pipeweave.orchestrator.recovery import tick

    deployment = Deployment.open(environment.settings, pool_size=1)
    try:
        tick.run_once(deployment)
        times = []
        for _ in range(sizes.looked):
            began = time.perf_counter()
            tick.run_once(deployment)
            times.append(time.perf_counter() - began)
    finally:
        deployment.close()
    more = {"p50": round(1000 * median(times), 3), "goal": "<= 50"}
    return Figures("ms, p95", {"ours": _p95_ms(times)}, more)


def _median(unit: str, samples: Sequence[float], goal: str) -> Figures:
    shown = [round(each, 3) for each in samples]
    return Figures(unit, {"ours": median(samples)}, {"samples": {"ours": shown}, "goal": goal})


def _p95_ms(seconds: Sequence[float]) -> float:
    return 1000 * _percentile(seconds, 95)


def _percentile(samples: Sequence[float], percent: int) -> float:
    return quantiles(samples, n=100, method="inclusive")[percent - 1] if samples[1:] else samples[0]
