"""The ledger, the timeline and the item matrix in a browser, and without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from playwright.sync_api import Browser
from support.browser import visiting
from support.run_driver import RunDriver
from support.timed_runs import TimedRuns

from pipeweave import ids
from pipeweave.orchestrator.security import READ


@pytest.fixture
def runs(database_url: str, driver: RunDriver) -> Iterator[TimedRuns]:
    made = TimedRuns(database_url, driver.tenant)
    yield made
    made.close()


@pytest.fixture
def run_id(runs: TimedRuns) -> UUID:
    return runs.report()


def path(run_id: UUID, rest: str) -> str:
    return f"/runs/{ids.show(ids.RUN, run_id)}{rest}"


def test_without_scripts_the_timeline_is_a_picture_and_a_table(
    browser: Browser, server: str, driver: RunDriver, run_id: UUID, make_token: Callable[..., str]
) -> None:
    token = make_token(READ)
    with visiting(browser, server, driver.tenant, token, java_script_enabled=False) as visit:
        page = visit.open(path(run_id, "/timeline"))
        assert page.locator("svg.timeline-picture g").count() == 5
        assert "= " in page.locator(".ledger-text").inner_text()
        page.get_by_text("The steps as a table").click()
        rows = page.locator("#timeline-table tbody tr")
        assert rows.count() == 5
        assert "work" in rows.first.inner_text()
        page = visit.open(path(run_id, "/steps/resize/items?itemStatus=failed"))
        shown = page.locator("tbody tr").all_inner_texts()
        assert [each.split()[0] for each in shown] == ["13", "33", "53"]
