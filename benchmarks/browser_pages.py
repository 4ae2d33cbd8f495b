"""Pages of the dashboard in a headless Chromium: how late they show a commit, and how soon they paint.

`python -m benchmarks.browser_pages` starts everything and prints the figures. The browser is on the machine
of the servers, so its clock is theirs, and so are its processors.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import psycopg2
from playwright.sync_api import Page, sync_playwright

from benchmarks import report, shapes
from benchmarks.environment import Environment, environment
from benchmarks.figures import percentile
from benchmarks.graph_page import BROWSER
from benchmarks.measure import warm_up
from benchmarks.pipeweave_system import PipeWeaveSystem
from benchmarks.sizes import Sizes
from pipeweave import ids

# Runs whose end is looked for, and how often each page is opened.
SHOWN, OPENED = 20, 20
# Steps of 10 ms of a run whose page is open before it ends, and steps of a large run.
STEPS, LARGE = 200, 4_998
_LATE_MS = 15_000

# Resolves with the browser's time (ms since 1970) at which an element has these words in it.
_SEEN = """
([selector, words, late]) => new Promise((done, fail) => {
  const look = () => {
    const found = document.querySelector(selector);
    if (!found || !found.textContent.includes(words)) return false;
    done(Date.now());
    return true;
  };
  if (look()) return;
  setTimeout(() => fail(new Error(`${selector} does not say ${words}`)), late);
  const observer = new MutationObserver(() => look() && observer.disconnect());
  observer.observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
})
"""
_PAINTED = """
() => new Promise((done) => new PerformanceObserver((list) => {
  const [paint] = list.getEntriesByName("first-contentful-paint");
  if (paint) done([performance.getEntriesByType("navigation")[0].responseStart, paint.startTime]);
}).observe({ type: "paint", buffered: true }))
"""
_ENDED = "SELECT extract(epoch FROM finished_at) * 1000 FROM runs WHERE id = %s::uuid"


class Visitor:
    """A page of the dashboard, and the database whose rows it shows."""

    def __init__(self, up: Environment, page: Page) -> None:
        self.pipeweave: PipeWeaveSystem = up.pipeweave
        self.page = page
        self._database_url = up.settings.database_url

    def open(self, path: str) -> None:
        self.page.goto(f"{self.pipeweave.url}/ui/default{path}")

    def late_ms(self, run_id: str, selector: str, words: str) -> float:
        """Wait until the page says that a run has ended; milliseconds from the end of the run until then."""
        seen = float(self.page.evaluate(_SEEN, [selector, words, _LATE_MS]))
        with closing(psycopg2.connect(self._database_url)) as connection, connection.cursor() as cursor:
            cursor.execute(_ENDED, (str(ids.read(ids.RUN, run_id)),))
            row = cursor.fetchone()
        assert row is not None
        return seen - float(row[0])


def late(visitor: Visitor, path: str, selector: str) -> list[float]:
    """How late (ms) a page shows the ends of runs, after many steps of each that it showed.

    Args:
        path: of the page, and
        selector: of the element that says so; `RUN` in them is the id of the run.
    """
    seen = []
    for _ in range(SHOWN):
        run_id = visitor.pipeweave.started("work-long", shapes.chain(STEPS, "work"), STEPS)
        visitor.open(path.replace("RUN", run_id))
        seen.append(visitor.late_ms(run_id, selector.replace("RUN", run_id), "completed"))
    return seen


def painted(visitor: Visitor, path: str) -> tuple[list[float], list[float]]:
    """When the first byte of a page comes, and when its first content is painted (ms)."""
    bytes_at, paints = [], []
    for _ in range(OPENED):
        visitor.open(path)
        first, paint = visitor.page.evaluate(_PAINTED)
        bytes_at.append(first)
        paints.append(paint)
    return bytes_at, paints


def measure(visitor: Visitor) -> Iterator[str]:
    """Measure everything; give a line for each figure."""
    large = visitor.pipeweave.started("large", shapes.fan(LARGE), LARGE + 2)
    visitor.pipeweave.ended(large)
    pages = {"overview": "/", "runs": "/runs", "dead letters": "/dead-letters", "workers": "/workers"}
    pages["run of one step"] = f"/runs/{visitor.pipeweave.single()}"
    pages[f"run of {LARGE + 2:,} steps"] = f"/runs/{large}"
    for name, path in pages.items():
        first, paint = painted(visitor, path)
        yield f"{name}: first byte {_shown(first)}; first paint {_shown(paint)}"
    told = {
        "list of runs": ("/runs", "tr:has(a[href*='RUN'])"),
        "page of a run": ("/runs/RUN", ".run-facts strong"),
    }
    for name, place in told.items():
        yield f"{name}: from the commit to the page {_shown(late(visitor, *place))}"


def _shown(ms: Sequence[float]) -> str:
    return f"p50 {median(ms):,.0f} ms, p95 {percentile(ms, 95):,.0f} ms, slowest {max(ms):,.0f} ms"


@contextmanager
def _visitor(folder: Path) -> Iterator[Visitor]:
    with environment(folder) as up, sync_playwright() as playwright:
        warm_up(up.systems, Sizes())
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": 1440, "height": 900}, extra_http_headers=up.pipeweave.credentials
        )
        context.set_default_timeout(_LATE_MS)
        yield Visitor(up, context.new_page())
        browser.close()


def main() -> None:
    """Print the figures."""
    report.LATEST.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rig-", dir=report.LATEST.parent))
    try:
        with _visitor(folder) as visitor:
            for line in measure(visitor):
                print(line, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
