"""What a visit costs: bytes over the wire, and requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.browser import Visit
from support.run_driver import RunDriver
from support.servers import wait_until

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
        session.send("Network.enable")

    def _asked(self, event: Any) -> None:
        self.urls[event["requestId"]] = event["request"]["url"]

    def _answered(self, event: Any) -> None:
        if event["response"].get("fromDiskCache"):
            self.cached.add(event["requestId"])

    def _loaded(self, event: Any) -> None:
        self.sizes[event["requestId"]] = event["encodedDataLength"]

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


def loaded(visit: Visit) -> dict[str, float]:
    """Open the list of runs, wait until it is live, and tell what that loaded."""
    traffic = Traffic()
    traffic.watch(visit)
    visit.open("/runs")
    visit.page.locator("#live[data-state=live]").wait_for()
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
