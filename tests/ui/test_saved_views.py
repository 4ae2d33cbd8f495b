"""Named views: a filter is saved, chosen and deleted, by all of the tenant."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, expect
from support.browser import visiting
from support.run_driver import RunDriver

from pipeweave.orchestrator.registry import views
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.orchestrator.store.database import Database

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"


def test_a_filter_is_saved_under_a_name_chosen_and_deleted(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    with visiting(browser, server, driver.tenant, make_token(READ, WRITE)) as visit:
        page = visit.open("/runs?status=failed&window=24h&text=no+space")
        page.get_by_role("link", name="Save view").click()
        page.get_by_role("textbox", name="Name").fill("Full disks")
        page.get_by_role("button", name="Save view").click()
        visit.see("The view is saved")
        page.goto(f"{visit.root}/runs")
        page.get_by_role("navigation", name="Views").get_by_role("link", name="Full disks").click()
        expect(page.get_by_role("searchbox", name="Text")).to_have_value("no space")
        current = page.get_by_role("navigation", name="Views").locator("[aria-current]")
        expect(current).to_have_text("Full disks")
        page.get_by_role("link", name="Delete this view").click()
        page.get_by_role("button", name="Delete this view").click()
        visit.see("The view is deleted")
        expect(page.get_by_role("navigation", name="Views")).to_have_count(0)


def test_readers_use_views_and_their_names_stay_text(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str], database: Database
) -> None:
    with database.transaction() as tx:
        views.save(tx, driver.tenant, "runs", HOSTILE, "status=failed", saved_by=HOSTILE)
    with visiting(browser, server, driver.tenant, make_token(READ)) as visit:
        page = visit.open("/runs")
        page.get_by_role("navigation", name="Views").get_by_text(HOSTILE).click()
        expect(page).to_have_url(f"{visit.root}/runs?status=failed")
        expect(page.get_by_role("link", name="Delete this view")).to_have_count(0)
