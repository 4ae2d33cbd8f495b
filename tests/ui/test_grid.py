"""The grid of a pipeline folds the steps of one task and level, and shows how many of them failed."""

from __future__ import annotations

from playwright.sync_api import expect
from support.browser import Visit
from support.run_driver import PERMANENT, RunDriver

WIDE = {"list": [], **{f"c{at}": ["list"] for at in range(4)}, "report": [f"c{at}" for at in range(4)]}


def test_a_class_of_steps_is_one_row_that_opens_in_the_address(visit: Visit, driver: RunDriver) -> None:
    driver.store(WIDE, id="grown", tasks={f"c{at}": "limited" for at in range(4)}, failureMode="continue")
    run_id = driver.trigger("grown")
    driver.finish(run_id, "list", "c0")
    driver.finish(run_id, "c1", "c2", failure=PERMANENT)
    page = visit.open("/pipelines/grown?tab=grid")
    rows = page.locator("[data-grid] tbody tr")
    expect(rows).to_have_count(6)
    page.get_by_role("link", name="Fold steps of one task and level").click()
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("limited \N{MULTIPLICATION SIGN}4")
    expect(rows.nth(1)).to_contain_text("✗2")
    visit.axe()
    rows.nth(1).get_by_role("link").first.click()
    page.wait_for_url("**open=1%2Flimited**")
    expect(rows).to_have_count(7)
    expect(rows.nth(2)).to_contain_text("c0")
    page.get_by_role("link", name="limited \N{MULTIPLICATION SIGN}4").click()
    expect(rows).to_have_count(3)
    rows.nth(1).locator("td a").first.click()
    page.wait_for_url("**view=pattern&open=1%2Flimited**")
    expect(page.locator("#step")).to_contain_text("Failed step 1 of 2")
    page.go_back()
    page.get_by_role("link", name="All steps").click()
    expect(rows).to_have_count(6)
