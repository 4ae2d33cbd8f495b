"""Charts on the screens: they are read, clicked and restored by their address."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, Visit, visiting
from support.counted_events import fold_all
from support.run_driver import PERMANENT, RunDriver

from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.orchestrator.store.database import Database

SCREENS = (
    "/?window=1h",
    "/runs?window=6h&status=failed",
    "/pipelines",
    "/pipelines/report?tab=statistics",
    "/tasks",
    "/tasks/noop",
)


@pytest.fixture
def counted(driver: RunDriver, database: Database) -> RunDriver:
    """A tenant with runs, all of them counted."""
    for pipeline in ("report", "other"):
        driver.store({"a": [], "b": ["a"]}, id=pipeline, tasks={"b": "limited"})
    for _ in range(3):
        driver.finish(driver.trigger("report"), "a", "b")
    driver.finish(driver.trigger("report"), "a", failure=PERMANENT)
    driver.finish(driver.trigger("other"), "a", "b")
    while any(fold_all(database) for _ in range(2)):
        pass
    return driver


def test_charts_break_no_rule_of_accessibility(
    browser: Browser, server: str, counted: RunDriver, make_token: Callable[..., str]
) -> None:
    token = make_token(READ, WRITE)
    with visiting(browser, server, counted.tenant, token, viewport=PHONE) as visit:
        for path in SCREENS:
            page = visit.open(path)
            for each in page.locator("figure.chart summary").all()[:1]:
                each.click()
            visit.axe_in_both_themes()
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= PHONE["width"], path


def test_a_bar_narrows_the_list_to_its_time(visit: Visit, counted: RunDriver) -> None:
    page = visit.open("/?window=1h")
    expect(page.locator("#failing tbody tr")).to_have_count(1)
    page.locator("svg.stacked a").last.click()
    page.wait_for_url(re.compile("/runs.*createdAfter=.*createdBefore="))
    # Whatever minute it was, this list has statistics of its own.
    visit.see("the chosen time")
    visit.open("/runs?window=24h&pipelineId=report")
    # The same link stands in the table, for those who use no pointer.
    page.get_by_text("Show as table").click()
    row = page.locator("figure.chart tbody tr").last
    expect(row.locator("td").last).to_have_text("1")
    row.get_by_role("link").click()
    page.wait_for_url(re.compile("createdAfter="))
    assert "pipelineId=report" in page.url
    assert page.locator("[data-row]").count() == 4
    page.go_back()
    page.wait_for_url(lambda url: "createdAfter" not in url)


def test_times_of_charts_are_in_the_readers_zone(
    browser: Browser, server: str, counted: RunDriver, make_token: Callable[..., str]
) -> None:
    with visiting(
        browser, server, counted.tenant, make_token(READ), timezone_id="Asia/Kolkata", locale="en-GB"
    ) as visit:
        page = visit.open("/?window=1h")
        title = page.locator("svg.stacked title[data-at]").last
        expect(title).not_to_contain_text("UTC")
        at, shown = title.get_attribute("data-at"), title.text_content()
        assert at is not None
        assert shown is not None
        here = page.evaluate("at => new Date(at).toLocaleTimeString('en-GB', {timeStyle: 'short'})", at)
        assert shown.startswith(f"{here}: ")
