"""Measure what watchers cost those who work: the same runs without and with them, in turn."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from statistics import median

from benchmarks.environment import Environment
from benchmarks.figures import Figures
from benchmarks.pipeweave_system import PipeWeaveSystem
from benchmarks.sizes import Sizes

# Each watches one run, as whoever waits for it does; one more watches the ends of all runs.
COUNT = 100
_PIECE = 65_536


def measure(environment: Environment, sizes: Sizes) -> Figures:
    """Run diamonds without and with watchers, in turn."""
    pipeweave = environment.pipeweave
    without: list[float] = []
    beside: list[float] = []
    run_id = pipeweave.single()
    for _ in range(2 * sizes.rounds):
        without.append(_rate(pipeweave, sizes))
        with _watchers(pipeweave, run_id):
            beside.append(_rate(pipeweave, sizes))
    ratio = median(without) / median(beside)
    more = {
        "runs/s": {"without": round(median(without), 1), "with": round(median(beside), 1)},
        "goal": "<= 1.05",
    }
    return Figures(f"time with {COUNT} watchers / without", {"ours": ratio}, more)


def _rate(pipeweave: PipeWeaveSystem, sizes: Sizes) -> float:
    began = time.perf_counter()
    pipeweave.diamonds(sizes.diamonds, sizes.clients)
    return sizes.diamonds / (time.perf_counter() - began)


@contextmanager
def _watchers(pipeweave: PipeWeaveSystem, run_id: str) -> Iterator[None]:
    paths = [f"/api/stream?run={run_id}"] * (COUNT - 1) + ["/api/stream?types=run"]
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(pipeweave.streamed(path))) for path in paths]
        stop = threading.Event()
        reading = threading.Thread(target=_read_all, args=(clients, stop), daemon=True)
        reading.start()
        try:
            yield
        finally:
            stop.set()
            reading.join()


def _read_all(clients: list[socket.socket], stop: threading.Event) -> None:
    with selectors.DefaultSelector() as selector:
        for each in clients:
            selector.register(each, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.recv(_PIECE)
