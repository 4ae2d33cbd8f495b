"""Measure what open pages of the dashboard cost those who work: the same runs without and with them, in turn.

Each page holds a stream of announcements, and fetches its fragment whenever it hears that it has changed, as
a browser does. All are of this process, on the same two cores.
"""

from __future__ import annotations

import queue
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import quote

import orjson

from benchmarks import shapes
from benchmarks.environment import Environment
from benchmarks.figures import Figures
from benchmarks.pipeweave_system import PipeWeaveSystem
from benchmarks.sizes import Sizes
from benchmarks.systems import BenchmarkFailed
from benchmarks.usage import cpu_seconds

COUNT = 100
# The pages that are open, ten times each.
PATHS = (
    "/runs",
    "/runs?status=running",
    "/runs?status=completed",
    "/runs?status=failed",
    "/runs?status=pending",
    "/runs?status=cancelled",
    "/runs?pipelineId=diamond",
    "/runs?pipelineId=single",
    "/runs?pipelineId=mapped",
    "/workers",
)
# The pipelines that filters of them name: a list of one that does not exist is refused.
_FILTERED = {"diamond": shapes.diamond(), "single": shapes.chain(1), "mapped": shapes.mapped()}
_PIECE = 65_536


# Seconds in which every page has looked for the first time: they do so one after the other.
_SETTLED_S = 60.0


@dataclass
class Pages:
    """Pages that are open.

    Args:
        fetched: fragments that came, and those that had not changed.
    """

    pipeweave: PipeWeaveSystem
    fetched: int = 0
    errors: int = 0
    _heard: queue.SimpleQueue[tuple[str, str] | None] = field(default_factory=queue.SimpleQueue)
    _texts: dict[socket.socket, bytes] = field(default_factory=dict)

    def hear(self, stream: socket.socket) -> None:
        """Read what a stream says, and note what to fetch."""
        *lines, self._texts[stream] = (self._texts.get(stream, b"") + stream.recv(_PIECE)).split(b"\n")
        for line in lines:
            if line.startswith(b'data: {"views"'):
                for path, tag in orjson.loads(line[6:])["views"].items():
                    self._heard.put((path, tag))

    def fetch_all(self) -> None:
        """Fetch what was heard of, until the end."""
        with self.pipeweave.connect() as connection:
            while (found := self._heard.get()) is not None:
                path, tag = found
                headers = {
                    "X-PipeWeave-Fragment": "main",
                    "X-PipeWeave-Announced": tag,
                    "Accept-Encoding": "gzip",
                }
                status = self.pipeweave.fetch(connection, f"/ui/default{path}", headers)
                self.errors += status not in (200, 304)
                self.fetched += 1

    def settle(self, count: int) -> None:
        """Wait until every page has looked once: what opening costs is not what watching costs."""
        until = time.monotonic() + _SETTLED_S
        while self.fetched < count:
            if time.monotonic() > until:
                raise BenchmarkFailed(f"{self.fetched} of {count} pages have looked")
            time.sleep(0.05)

    def end(self) -> None:
        self._heard.put(None)


def measure(environment: Environment, sizes: Sizes) -> Figures:
    """Run diamonds without and with open pages, in turn."""
    pipeweave = environment.pipeweave
    without: list[float] = []
    beside: list[float] = []
    used: list[list[float]] = [[], []]
    fetched = 0
    pipeweave.single()
    for _ in range(2 * sizes.rounds):
        without.append(_rate(pipeweave, sizes, used[0]))
        with opened(pipeweave) as pages:
            before = pages.fetched
            beside.append(_rate(pipeweave, sizes, used[1]))
            fetched += pages.fetched - before
    more = {
        "runs/s": {"without": round(median(without), 1), "with": round(median(beside), 1)},
        "cpu seconds of the API": {"without": round(sum(used[0]), 2), "with": round(sum(used[1]), 2)},
        "fragments fetched": fetched,
        "goal": "<= 1.05",
    }
    ratio = median(without) / median(beside)
    return Figures(f"time with {COUNT} open pages / without", {"ours": ratio}, more)


def _rate(pipeweave: PipeWeaveSystem, sizes: Sizes, used: list[float]) -> float:
    """Runs per second; what the API used of the processor meanwhile (s) is added to `used`."""
    before, began = cpu_seconds(pipeweave.processes["api"]), time.perf_counter()
    pipeweave.diamonds(sizes.diamonds, sizes.clients)
    took = time.perf_counter() - began
    used.append(cpu_seconds(pipeweave.processes["api"]) - before)
    return sizes.diamonds / took


@contextmanager
def opened(pipeweave: PipeWeaveSystem, count: int = COUNT) -> Iterator[Pages]:
    """Keep so many pages open, each of which has looked once.

    Raises:
        BenchmarkFailed: a page was refused a fragment.
    """
    paths = [f"/api/live?view={quote(PATHS[each % len(PATHS)], safe='/')}" for each in range(count)]
    for name, document in _FILTERED.items():
        pipeweave.store(name, document)
    pages, stop = Pages(pipeweave), threading.Event()
    with ExitStack() as stack:
        streams = [stack.enter_context(closing(pipeweave.streamed(path))) for path in paths]
        threads = [
            threading.Thread(target=_hear_all, args=(pages, streams, stop), daemon=True),
            threading.Thread(target=pages.fetch_all, daemon=True),
        ]
        for each in threads:
            each.start()
        try:
            pages.settle(count)
            yield pages
        finally:
            stop.set()
            threads[0].join()
            pages.end()
            threads[1].join()
    if pages.errors:
        raise BenchmarkFailed(f"{pages.errors} fragments were refused")


def _hear_all(pages: Pages, streams: list[socket.socket], stop: threading.Event) -> None:
    with selectors.DefaultSelector() as selector:
        for each in streams:
            selector.register(each, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                pages.hear(key.fileobj)
