"""The plan beside the form of a trigger: levels, fan-out, limits and time, with and without scripts."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, Locator, expect
from support.browser import visiting
from support.inline_worker import InlineWorker

from pipeweave.orchestrator.security import READ, WRITE


def check(plan: Locator) -> None:
    """What every view of the plan says."""
    expect(plan).to_contain_text("About")
    expect(plan).to_contain_text("by 1 run: too few to be sure")
    expect(plan).to_contain_text("limited runs 2 at a time: 0 run now.")
    rows = plan.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("map, 7 items in the newest run")
    expect(rows.nth(2)).to_contain_text("2 steps")


def test_the_plan_stands_beside_the_form(
    browser: Browser, server: str, worker: InlineWorker, make_token: Callable[..., str]
) -> None:
    steps: dict[str, list[str]] = {"make": [], "m": ["make"], "tag": ["make"], "report": ["m", "tag"]}
    worker.driver.store(steps, id="planned", tasks={"tag": "limited"}, maps={"m": list(range(7))})
    worker.driver.trigger("planned")
    worker.consume_all()
    tenant, token = worker.driver.tenant, make_token(READ, WRITE)
    with visiting(browser, server, tenant, token) as visit:
        page = visit.open("/pipelines/planned?tab=trigger")
        check(page.locator("main .plan"))
        visit.axe_in_both_themes()
        expect(page.get_by_role("button", name="Start run")).to_have_count(1)
        visit.open("/pipelines/planned").get_by_role("link", name="Trigger…").click()
        dialog = page.get_by_role("dialog")
        check(dialog.locator(".plan"))
        visit.axe_in_both_themes()
    with visiting(browser, server, tenant, token, java_script_enabled=False) as visit:
        check(visit.open("/do/pipelines.trigger?id=planned").locator(".plan"))
