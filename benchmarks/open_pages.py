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

from benchmarks.environment import Environment
from benchmarks.figures import Figures
from benchmarks.pipeweave_system import PipeWeaveSystem
from benchmarks.sizes import Sizes

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
    "/runs?pipelineId=fan",
    "/workers",
)
_PIECE = 65_536


@dataclass
class _Pages:
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
                headers = {"X-PipeWeave-Fragment": "main", "X-PipeWeave-Announced": tag}
                status = self.pipeweave.fetch(connection, f"/ui/default{path}", headers)
                self.fetched += 1
                self.errors += status not in (200, 304)

    def end(self) -> None:
        self._heard.put(None)


def measure(environment: Environment, sizes: Sizes) -> Figures:
    """Run diamonds without and with open pages, in turn."""
    pipeweave = environment.pipeweave
    without: list[float] = []
    beside: list[float] = []
    fetched = 0
    pipeweave.single()
    for _ in range(2 * sizes.rounds):
        without.append(_rate(pipeweave, sizes))
        with _open(pipeweave) as pages:
            beside.append(_rate(pipeweave, sizes))
        fetched += pages.fetched
        assert not pages.errors, f"{pages.errors} fragments were refused"
    more = {
        "runs/s": {"without": round(median(without), 1), "with": round(median(beside), 1)},
        "fragments fetched": fetched,
        "goal": "<= 1.05",
    }
    ratio = median(without) / median(beside)
    return Figures(f"time with {COUNT} open pages / without", {"ours": ratio}, more)


def _rate(pipeweave: PipeWeaveSystem, sizes: Sizes) -> float:
    began = time.perf_counter()
    pipeweave.diamonds(sizes.diamonds, sizes.clients)
    return sizes.diamonds / (time.perf_counter() - began)


@contextmanager
def _open(pipeweave: PipeWeaveSystem) -> Iterator[_Pages]:
    paths = [f"/api/live?view={quote(PATHS[each % len(PATHS)], safe='/')}" for each in range(COUNT)]
    pages, stop = _Pages(pipeweave), threading.Event()
    with ExitStack() as stack:
        streams = [stack.enter_context(closing(pipeweave.streamed(path))) for path in paths]
        threads = [
            threading.Thread(target=_hear_all, args=(pages, streams, stop), daemon=True),
            threading.Thread(target=pages.fetch_all, daemon=True),
        ]
        for each in threads:
            each.start()
        try:
            yield pages
        finally:
            stop.set()
            threads[0].join()
            pages.end()
            threads[1].join()


def _hear_all(pages: _Pages, streams: list[socket.socket], stop: threading.Event) -> None:
    with selectors.DefaultSelector() as selector:
        for each in streams:
            selector.register(each, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in selector.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                pages.hear(key.fileobj)
