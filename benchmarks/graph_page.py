"""A page with a graph of any size, in a headless Chromium: what a frame, a redraw and a change cost there.

`python -m benchmarks.graph_page` prints the figures.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from pipeweave.orchestrator.domain.plan import compile_plan
from pipeweave.orchestrator.graph import DrawingView, graph_document
from pipeweave.spec import PipelineSpec, StepSpec

STATIC = Path(__file__).parents[1] / "api" / "ui" / "static"
BROWSER = "/usr/bin/chromium"
LAYERS = 20
SIZES = (500, 5_000, 10_000)

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>bench</title>
<link rel="stylesheet" href="/css/tokens.css"><link rel="stylesheet" href="/css/graph.css">
<script type="module" src="/js/graph/element.js"></script>
<body><pw-graph states=""></pw-graph></body></html>"""
# All in ms of script and, where a picture is read back, of drawing; the median of several.
_MEASURE = """
async (given) => {
  // As text: the browser reads it a hundred times faster than the driver hands values over.
  const { graph, states, changes } = JSON.parse(given);
  const element = document.querySelector("pw-graph");
  const median = (all) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)];
  const surface = () => element.surface;
  const settle = () => surface().pen.getImageData(0, 0, 1, 1);
  const times = (count, work) => median(Array.from({ length: count }, () => {
    const began = performance.now();
    work();
    return performance.now() - began;
  }));
  const frame = () => new Promise((done) => requestAnimationFrame(() => done(undefined)));
  element.show(graph);
  while (!element.camera.width) await frame();
  let began = performance.now();
  element.show(graph);
  element.apply(states);
  settle();
  const first_paint = performance.now() - began;
  while (!surface().painted.zoom) await frame();
  const { camera } = element;
  const redraw = times(7, () => { surface().redraw(); settle(); });
  // One of them takes less than the clock tells.
  const each = (count, work) => times(5, () => { for (let at = 0; at < count; at++) work(); }) / count;
  const pan = each(50, () => camera.pan(0.2, 0.2));
  const zoomed = each(50, () => camera.zoomAt(1.0001));
  surface().redraw();
  const before = surface().redraws;
  const diff = median(changes.map((each) => {
    began = performance.now();
    element.apply(each);
    settle();
    return performance.now() - began;
  }));
  const full_redraws = surface().redraws - before;
  camera.zoomAt(0.5 / camera.zoom);
  surface().redraw();
  const near = times(7, () => { surface().redraw(); settle(); });
  return { first_paint, redraw, pan, zoomed, diff, near, full_redraws };
}
"""


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """What a graph costs in the browser: milliseconds, and MB of heap.

    Args:
        first_paint: from the document to the first picture, states included.
        redraw: the whole graph drawn anew, all of it in view.
        near: a part of it drawn anew, at a zoom where names can be read.
        pan: the script of one frame while the view is moved.
        zoomed: the script of one frame while it is zoomed.
        diff: a change of 2,000 statuses, drawn.
        heap_mb: of the page, with everything.
        full_redraws: how often a change of statuses had the whole picture drawn anew.
    """

    first_paint: float
    redraw: float
    near: float
    pan: float
    zoomed: float
    diff: float
    heap_mb: float
    full_redraws: int


def spec_of(steps: int, seed: int = 1) -> PipelineSpec:
    """A pipeline with so many steps in 20 levels: mostly with near predecessors, some with far ones."""
    chance = random.Random(seed)
    wide = max(1, steps // LAYERS)
    made = []
    for at in range(steps):
        level, place = divmod(at, wide)
        needs: set[int] = set()
        if level:
            spots = (place + chance.randint(-3, 3) for _ in range(chance.choice((1, 1, 2, 2, 3))))
            needs = {(level - 1) * wide + min(wide - 1, max(0, spot)) for spot in spots}
            if level > 2 and chance.random() < 0.05:
                needs.add((level - 3) * wide + place)
        made.append(StepSpec(f"step-{at}", f"task-{level}", tuple(f"step-{each}" for each in sorted(needs))))
    return PipelineSpec("bench", tuple(made))


def graph_of(steps: int, *, is_down: bool = False) -> dict[str, Any]:
    """The document of the graph of such a pipeline, as the endpoint answers it."""
    return graph_document(
        compile_plan(spec_of(steps)), DrawingView.ALL, pipeline_id="bench", version=1, is_down=is_down
    )


def states_of(ordinals: list[int], seed: int = 1) -> dict[str, Any]:
    """States of these steps, as the endpoint of a run's steps answers them."""
    chance = random.Random(seed)
    return {
        "status": "running",
        "isWhole": True,
        "cursor": str(seed),
        "ordinals": ordinals,
        "statuses": "".join(chance.choices("cRqpf", (60, 5, 10, 23, 2), k=len(ordinals))),
        "attempts": [1] * len(ordinals),
        "queuedMs": [float(each) for each in ordinals],
        "startedMs": [float(each + 5) for each in ordinals],
        "finishedMs": [float(each + 500) for each in ordinals],
        "codeVersions": [1] * len(ordinals),
        "items": {},
    }


def measure_graph(page: Page, steps: int, changed: int = 2_000) -> GraphFigures:
    """Show a graph on a page that `served` answers, and measure.

    Args:
        page: with the bench page loaded.
        steps: of the graph.
        changed: steps in one change of states.
    """
    graph = graph_of(steps)
    chance = random.Random(2)
    every = range(1, steps + 1)
    changes = [states_of(sorted(chance.sample(every, min(changed, steps))), seed) for seed in range(3, 8)]
    given = {"graph": graph, "states": states_of(list(every)), "changes": changes}
    found: dict[str, Any] = page.evaluate(_MEASURE, json.dumps(given))
    protocol = page.context.new_cdp_session(page)
    protocol.send("HeapProfiler.collectGarbage")
    heap = protocol.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    return GraphFigures(heap_mb=heap, **found)


class _Files(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/":
            super().do_GET()
            return
        body = _PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    """The bench page on a free port of this machine; gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(STATIC)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Print the figures for graphs of 500, 5,000 and 10,000 steps."""
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        for steps in SIZES:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(url)
            figures = measure_graph(page, steps)
            shown = ", ".join(f"{name} {value:,.2f}" for name, value in asdict(figures).items())
            print(f"{steps:,} steps: {shown}")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
