"""Measure HTTP tasks next to a bare loop of HTTP posts: the same dispatches to the same worker, whose reports
come to a bare endpoint. The loop keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import shapes
from benchmarks.environment import Environment
from benchmarks.figures import Benchmark, Figures
from benchmarks.http_sender import HttpSender
from benchmarks.processes import front, python, running
from benchmarks.sizes import Sizes
from benchmarks.systems import BenchmarkFailed
from pipeweave import signatures
from pipeweave.up.ports import LOOPBACK, free_port

TASK = "http_noop"
LOOP = "benchmarks.plain.http_loop:loop()"
_GOAL = ">= 0.5 x the bare loop"
_REGISTRATION = {
    "serviceId": "benchmarks-http",
    "version": "1",
    "tasks": [{"id": TASK, "codeHash": "0123456789abcdef"}],
}


@dataclass(frozen=True, slots=True)
class Pair:
    """PipeWeave and the bare loop, each with a worker of its own.

    Args:
        worker, bare_worker: requests to the workers.
        bare: requests to the loop.
        bare_url: where the loop's dispatches go.
    """

    environment: Environment
    worker: HttpSender
    bare: HttpSender
    bare_worker: HttpSender
    bare_url: str

    def ours(self, document: shapes.Document, name: str) -> float:
        """Run a pipeline; return its seconds."""
        began = perf_counter()
        self.environment.pipeweave.dispatched(name, document)
        return perf_counter() - began

    def loop(self, count: int, wide: int) -> float:
        """Let the loop post so many dispatches, so many of them at once; return the seconds."""
        order = {
            "count": count,
            "wide": wide,
            "target": self.bare_url,
            "dispatch": _asked(self.worker, "/dispatch"),
            # Of the same size as a signature; nobody checks it.
            "headers": {signatures.HEADER: signatures.sign("secret", 0, "", b"")},
        }
        began = perf_counter()
        with self.bare.connect() as connection:
            self.bare.send(connection, "POST", "/run", order)
        return perf_counter() - began


def benchmarks(sizes: Sizes) -> list[Benchmark]:
    """List the benchmarks in these sizes."""
    return [
        Benchmark(f"http_chain_{sizes.chain}", lambda environment: _measured(environment, sizes, _chain)),
        Benchmark(
            f"http_dispatches_{sizes.dispatches}",
            lambda environment: _measured(environment, sizes, _dispatches),
        ),
    ]


def _measured(environment: Environment, sizes: Sizes, measure: Callable[[Pair, Sizes], Figures]) -> Figures:
    with _pair(environment) as pair:
        for _ in range(2):
            pair.ours(shapes.chain(sizes.chain, TASK), f"http-chain-{sizes.chain}")
            pair.loop(sizes.chain, 1)
        return measure(pair, sizes)


def _chain(pair: Pair, sizes: Sizes) -> Figures:
    """From a report to the arrival of the next dispatch, as the worker sees it."""
    hops: dict[str, list[float]] = {"ours": [], "bare": []}
    _hops(pair.worker)
    _hops(pair.bare_worker)
    for _ in range(sizes.rounds):
        pair.ours(shapes.chain(sizes.chain, TASK), f"http-chain-{sizes.chain}")
        pair.loop(sizes.chain, 1)
        hops["ours"].append(1000 * median(_hops(pair.worker)))
        hops["bare"].append(1000 * median(_hops(pair.bare_worker)))
    return _figures("ms per hop", hops, lambda ours, bare: bare / ours)


def _dispatches(pair: Pair, sizes: Sizes) -> Figures:
    """Steps side by side: dispatched, taken and reported."""
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    count = sizes.dispatches
    document = shapes.side_by_side(count, TASK)
    for _ in range(sizes.rounds):
        rates["ours"].append(count / pair.ours(document, f"http-wide-{count}"))
        rates["bare"].append(count / pair.loop(count, count))
    return _figures("dispatches/s", rates, lambda ours, bare: ours / bare)


def _figures(unit: str, samples: dict[str, list[float]], speed: Callable[[float, float], float]) -> Figures:
    ours, bare = (median(samples[name]) for name in ("ours", "bare"))
    ratio = speed(ours, bare)
    more: dict[str, Any] = {
        "bare": round(bare, 3),
        "ratio_bare": round(ratio, 3),
        "samples": {name: [round(each, 3) for each in seen] for name, seen in samples.items()},
        "goal": _GOAL,
        "note": f"the bare loop is at {bare:,.2f} {unit}; ours has {ratio:.2f} x its speed",
    }
    return Figures(unit, {"ours": ours}, more)


@contextmanager
def _pair(environment: Environment) -> Iterator[Pair]:
    """Start both workers and the loop; register the worker of PipeWeave."""
    logs = Path(str(environment.settings.data_dir)).parent / "logs"
    with ExitStack() as stack:
        api_url = environment.pipeweave.url
        worker, port = _worker(stack, logs / "http-worker.log", api_url)
        bare = HttpSender(bare_port := free_port())
        # The worker keeps its connections; the default closes them after two seconds.
        launch = front(bare_port, LOOP, "--keep-alive", "60", variables={})
        stack.enter_context(running(launch, logs / "http-loop.log", lambda: bare.answers("/")))
        bare_worker, its_port = _worker(stack, logs / "bare-worker.log", f"http://{LOOPBACK}:{bare_port}")
        environment.pipeweave.register({**_REGISTRATION, "baseUrl": f"http://{LOOPBACK}:{port}"})
        yield Pair(environment, worker, bare, bare_worker, f"http://{LOOPBACK}:{its_port}/tasks/{TASK}")


def _worker(stack: ExitStack, log: Path, report_to: str) -> tuple[HttpSender, int]:
    sender = HttpSender(port := free_port())
    launch = python("benchmarks.http_worker", str(port), report_to, variables={})
    stack.enter_context(running(launch, log, lambda: sender.answers("/hops")))
    return sender, port


def _hops(worker: HttpSender) -> list[float]:
    found = _asked(worker, "/hops")
    if found["refused"]:
        raise BenchmarkFailed(f"reports were refused: {found['refused']}")
    return list(found["hops"])


def _asked(worker: HttpSender, path: str) -> Any:
    with worker.connect() as connection:
        return worker.send(connection, "GET", path, None)
