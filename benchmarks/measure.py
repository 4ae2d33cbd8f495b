"""Run the benchmarks; each samples the systems in turn, so that other load disturbs all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any

from benchmarks import alone, costs, floors, over_http
from benchmarks.figures import Benchmark, Figures, percentile, seconds_of
from benchmarks.sizes import Sizes
from benchmarks.systems import System
from benchmarks.usage import idle

Sample = Callable[[System], float]


def benchmarks(sizes: Sizes) -> list[Benchmark]:
    """List the benchmarks in these sizes."""
    return [
        Benchmark(f"chain_{sizes.chain}", lambda environment: _chain(environment.systems, sizes)),
        Benchmark(f"fan_{sizes.fan}", lambda environment: _fan(environment.systems, sizes)),
        Benchmark(f"map_{sizes.mapped}", lambda environment: _mapped(environment.systems, sizes)),
        Benchmark(f"diamonds_{sizes.diamonds}", lambda environment: _diamonds(environment.systems, sizes)),
        Benchmark("single_run", lambda environment: _singles(environment.systems, sizes)),
        Benchmark("idle", lambda environment: _idle(environment.systems, sizes)),
        *over_http.benchmarks(sizes),
        *alone.benchmarks(sizes),
        *floors.benchmarks(sizes),
        *costs.benchmarks(sizes),
    ]


def warm_up(systems: Sequence[System], sizes: Sizes) -> None:
    """Let every process load, connect and compile. The first chain also waits until the worker is up."""
    for each in systems:
        for _ in range(3):
            each.chain(sizes.chain)
        each.fan(min(sizes.fan, 100))
        each.mapped(min(sizes.mapped, 100))
        each.diamonds(min(sizes.diamonds, 50), sizes.clients)
        each.singles(min(sizes.singles, 5))


def _chain(systems: Sequence[System], sizes: Sizes) -> Figures:
    def sample(system: System) -> float:
        return 1000 * seconds_of(lambda: system.chain(sizes.chain)) / sizes.chain

    # A chain takes milliseconds, so three times as many samples are cheap.
    samples = _alternate(systems, 3 * sizes.rounds, sample)
    slowest = _slowest(samples, lambda per_hop: per_hop * sizes.chain)
    return _medians("ms per hop", samples, {"slowest_ms": slowest, "goal": "<= 1.0 x tuned"})


def _fan(systems: Sequence[System], sizes: Sizes) -> Figures:
    steps = sizes.fan + 2

    def sample(system: System) -> float:
        return steps / seconds_of(lambda: system.fan(sizes.fan))

    samples = _alternate(systems, sizes.rounds, sample)
    slowest = _slowest(samples, lambda rate: 1000 * steps / rate)
    more = {"slowest_ms": slowest, "goal": ">= 2 x tuned, >= 5 x celery"}
    return _medians("steps/s", samples, more)


def _mapped(systems: Sequence[System], sizes: Sizes) -> Figures:
    """Celery as written is measured once, maybe in a smaller size: its chords slow down with their width."""

    def sample_of(count: int) -> Sample:
        return lambda system: count / seconds_of(lambda: system.mapped(count))

    once = [each for each in systems if each.name == "celery"]
    samples = _alternate(
        [each for each in systems if each not in once], sizes.rounds, sample_of(sizes.mapped)
    )
    goal = {"goal": ">= 2.5 x tuned, >= 20 x celery"}
    if not once:
        return _medians("steps/s", samples, goal)
    samples |= _alternate(once, 1, sample_of(sizes.mapped_written))
    note = f"celery: measured once, with {sizes.mapped_written:,} items"
    return _medians("steps/s", samples, {"note": note, "celery_items": sizes.mapped_written, **goal})


def _diamonds(systems: Sequence[System], sizes: Sizes) -> Figures:
    def sample(system: System) -> float:
        return sizes.diamonds / seconds_of(lambda: system.diamonds(sizes.diamonds, sizes.clients))

    samples = _alternate(systems, sizes.rounds, sample)
    slowest = _slowest(samples, lambda rate: 1000 * sizes.diamonds / rate)
    return _medians("runs/s", samples, {"slowest_ms": slowest, "goal": ">= 1.0 x tuned"})


def _singles(systems: Sequence[System], sizes: Sizes) -> Figures:
    """The figure is the median to completion; the tail and the time to the answer are with it."""
    answered: dict[str, list[float]] = {each.name: [] for each in systems}
    completed: dict[str, list[float]] = {each.name: [] for each in systems}

    def sample(system: System) -> float:
        seen = [(1000 * first, 1000 * last) for first, last in system.singles(sizes.singles)]
        answered[system.name] += [first for first, _ in seen]
        completed[system.name] += [last for _, last in seen]
        return median(last for _, last in seen)

    samples = _alternate(systems, sizes.rounds, sample)
    p95 = {name: quantiles(seen, n=20)[-1] for name, seen in completed.items()}
    more = {
        "p95": {name: round(value, 3) for name, value in p95.items()},
        **{
            name: round(p95["ours"] / p95[to], 3)
            for name, to in (("p95_ratio", "celery"), ("p95_ratio_tuned", "celery_tuned"))
            if to in p95
        },
        "p999": {name: round(percentile(seen, 99.9), 3) for name, seen in completed.items()},
        "slowest": {name: round(max(seen), 3) for name, seen in completed.items()},
        "runs": len(completed["ours"]),
        "goal": "<= 1.7 x tuned",
        "goal_p95": "<= 2 x tuned",
        "goal_slowest": "<= 500",
        "answered_p50": {name: round(median(seen), 3) for name, seen in answered.items()},
    }
    return _medians("ms to completion, p50", samples, more)


def _idle(systems: Sequence[System], sizes: Sizes) -> Figures:
    """Ours: API, worker, beat. Celery: worker and HTTP front."""
    found = idle(systems, sizes.idle_s)
    more = {
        "seconds": sizes.idle_s,
        "goal": "<= 1",
        "goal_pss": "<= 100",
        "cpu_by_process": {
            name: {process: round(percent, 3) for process, percent in usage.cpu_percent.items()}
            for name, usage in found.items()
        },
        "largest_process_pss_mb": {name: round(usage.largest_pss_mb, 1) for name, usage in found.items()},
        "pss_mb_by_process": {
            name: {process: round(size, 1) for process, size in usage.pss_mb.items()}
            for name, usage in found.items()
        },
        "total_pss_mb": {name: round(usage.total_pss_mb, 1) for name, usage in found.items()},
    }
    values = {name: sum(usage.cpu_percent.values()) for name, usage in found.items()}
    return Figures("% of one core", values, more)


def _alternate(systems: Sequence[System], rounds: int, sample: Sample) -> dict[str, list[float]]:
    """Take samples of each system; the first system changes from round to round."""
    samples: dict[str, list[float]] = {each.name: [] for each in systems}
    for turn in range(rounds):
        shift = turn % max(1, len(systems))
        for system in [*systems[shift:], *systems[:shift]]:
            samples[system.name].append(sample(system))
    return samples


def _slowest(samples: Mapping[str, Sequence[float]], ms: Callable[[float], float]) -> dict[str, float]:
    """The time (ms) that the slowest sample of each system took as a whole; `ms` gives that of a figure."""
    return {name: round(max(ms(figure) for figure in seen), 3) for name, seen in samples.items()}


def _medians(
    unit: str, samples: Mapping[str, Sequence[float]], more: Mapping[str, Any] | None = None
) -> Figures:
    shown = {name: [round(each, 3) for each in seen] for name, seen in samples.items()}
    values = {name: median(seen) for name, seen in samples.items()}
    return Figures(unit, values, {"samples": shown, **(more or {})})
