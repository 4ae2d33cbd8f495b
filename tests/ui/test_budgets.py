"""What a visit costs: bytes over the wire, and requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.browser import Visit
from support.run_driver import RunDriver
from support.servers import wait_until

from benchmarks import wide_runs
from pipeweave import ids
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import MAX_MAP_ITEMS, MAX_STEPS

RUNS = 50
# A first visit, and a later one; the stream of announcements does not count, it never ends.
FIRST_BYTES, FIRST_REQUESTS = 60_000, 16
LATER_BYTES, LATER_REQUESTS = 20_000, 3


@dataclass
class Traffic:
    """What a page loads over the wire, as the browser counts it."""

    urls: dict[str, str] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)
    sizes: dict[str, float] = field(default_factory=dict)

    def watch(self, visit: Visit) -> None:
        session = visit.context.new_cdp_session(visit.page)
        session.on("Network.requestWillBeSent", self._asked)
        session.on("Network.requestServedFromCache", lambda event: self.cached.add(event["requestId"]))
        session.on("Network.responseReceived", self._answered)
        session.on("Network.loadingFinished", self._loaded)
        session.on("Network.loadingFailed", self._left)
        session.send("Network.enable")

    def _asked(self, event: Any) -> None:
        self.urls[event["requestId"]] = event["request"]["url"]

    def _answered(self, event: Any) -> None:
        if event["response"].get("fromDiskCache"):
            self.cached.add(event["requestId"])

    def _loaded(self, event: Any) -> None:
        self.sizes[event["requestId"]] = event["encodedDataLength"]

    def _left(self, event: Any) -> None:
        # Nobody reads what comes with a 304, so the browser lets go of it.
        if event.get("canceled"):
            self.sizes[event["requestId"]] = 0

    @property
    def is_complete(self) -> bool:
        """Whether all of it has come."""
        return all(
            id in self.sizes
            for id, url in self.urls.items()
            if "/api/live" not in url and id not in self.cached
        )

    @property
    def asked(self) -> dict[str, float]:
        """URL -> bytes, of what came over the wire."""
        return {
            url: self.sizes.get(id, 0)
            for id, url in self.urls.items()
            if id not in self.cached and "/api/live" not in url
        }


def loaded(visit: Visit, path: str = "/runs", drawn: str = "#live[data-state=live]") -> dict[str, float]:
    """Open a page, wait until it is live and shows this, and tell what that loaded."""
    traffic = Traffic()
    traffic.watch(visit)
    visit.open(path)
    visit.page.locator("#live[data-state=live]").wait_for()
    visit.page.locator(drawn).first.wait_for()
    # Playwright hands events out only while it is asked something.
    wait_until(lambda: visit.page.title() != "" and traffic.is_complete, 30, what="bodies are missing")
    return traffic.asked


def test_a_list_is_light_at_first_and_lighter_later(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []})
    for _ in range(RUNS):
        driver.trigger()
    first = loaded(visit)
    assert len(first) <= FIRST_REQUESTS, sorted(first)
    assert sum(first.values()) <= FIRST_BYTES, first
    later = loaded(visit)
    assert len(later) <= LATER_REQUESTS, sorted(later)
    assert sum(later.values()) <= LATER_BYTES, later


# --- runs as wide as runs may be --------------------------------------------------------------------------

# A page of a run with 5,000 steps, and what it asks the API for: the layout, and what the steps did.
RUN_PAGE_BYTES, GRAPH_BYTES, RUN_STATE_BYTES = 110_000, 70_000, 65_000
# Steps of each of two parallels, one behind the other.
PARALLEL = 100
_DELETE = "DELETE FROM {table} WHERE {column} = :id"


@contextmanager
def wide_run(database: Database, tenant: str, count: int, *, is_map: bool) -> Iterator[str]:
    """The id of a run that many rows tell of. Its events are not there, for those who read all events."""
    run_id = wide_runs.insert(database, count, is_map=is_map, tenant=tenant)
    try:
        with database.transaction() as tx:
            tx.execute("DELETE FROM events WHERE run_id = :id", {"id": run_id})
        yield ids.show(ids.RUN, run_id)
    finally:
        with database.transaction() as tx:
            for table, column in (("attempts", "run_id"), ("task_runs", "run_id"), ("runs", "id")):
                tx.execute(_DELETE.format(table=table, column=column), {"id": run_id})


def test_the_page_of_a_chain_of_5000_steps_is_light(
    visit: Visit, driver: RunDriver, database: Database
) -> None:
    with wide_run(database, driver.tenant, MAX_STEPS, is_map=False) as run_id:
        first = loaded(visit, f"/runs/{run_id}?tab=graph", "pw-graph canvas")
        graph = sum(size for url, size in first.items() if url.endswith("/graph"))
        state = sum(size for url, size in first.items() if f"/api/runs/{run_id}" in url)
        assert 0 < graph <= GRAPH_BYTES
        assert 0 < state <= RUN_STATE_BYTES
        assert sum(first.values()) - graph - state <= RUN_PAGE_BYTES, first
        later = loaded(visit, f"/runs/{run_id}?tab=graph", "pw-graph canvas")
        # The layout of a version never changes.
        assert not [url for url in later if url.endswith("/graph") or "/static/" in url]
        assert sum(size for url, size in later.items() if "/api/" not in url) <= LATER_BYTES, later


_DRAWN = """() => {
  const { scene } = document.querySelector("pw-graph");
  return scene && [scene.boxes, scene.x.length - scene.boxes, scene.links.length];
}"""


def test_the_page_of_100_steps_that_each_wait_for_100_others_draws_200_links(
    visit: Visit, driver: RunDriver
) -> None:
    first = [f"a{number}" for number in range(PARALLEL)]
    driver.store({each: [] for each in first} | {f"b{number}": first for number in range(PARALLEL)})
    run_id = ids.show(ids.RUN, driver.trigger())
    asked = loaded(visit, f"/runs/{run_id}?tab=graph&view=all", "pw-graph canvas")
    assert sum(asked.values()) <= RUN_PAGE_BYTES, asked
    # 10,000 edges: all of the first go into one junction, and from there to all of the others.
    assert visit.page.evaluate(_DRAWN) == [2 * PARALLEL, 1, 2 * PARALLEL]
    visit.page.get_by_role("application").press("v")
    visit.page.wait_for_url("**view=pattern**")
    wait_until(lambda: visit.page.evaluate(_DRAWN) == [2, 0, 1], what="two classes and a link")


def test_the_page_of_a_map_of_100000_items_is_light_and_draws_them_all(
    visit: Visit, driver: RunDriver, database: Database
) -> None:
    with wide_run(database, driver.tenant, MAX_MAP_ITEMS, is_map=True) as run_id:
        drawn = f"pw-matrix [data-drawn='{MAX_MAP_ITEMS}']"
        asked = loaded(visit, f"/runs/{run_id}/steps/m/items", drawn)
        assert sum(asked.values()) <= RUN_PAGE_BYTES, asked
