"""Dead letters as a person sees, retries, redrives and discards them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from playwright.sync_api import Browser
from support.browser import PHONE, Visit, visiting
from support.browser import WIDE as WIDE_WINDOW
from support.failed_runs import WIDE, failed_run, still_open
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver

from pipeweave.orchestrator.operations import redrives
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.spec.rules import CONTINUE


@pytest.fixture
def failed(worker: InlineWorker) -> UUID:
    """A run of which nine steps failed, all in the same way."""
    return failed_run(worker, {each: [] for each in WIDE}, *WIDE, failureMode=CONTINUE)


@pytest.fixture(autouse=True)
def _no_redrive_is_left(driver: RunDriver) -> Iterator[None]:
    """A tick works off the redrives of every tenant, also in other tests."""
    yield
    driver.database.run(
        lambda tx: tx.execute(
            "UPDATE redrives SET status = 'cancelled', finished_at = now()"
            " WHERE tenant_id = :tenant AND status = 'running'",
            {"tenant": driver.tenant},
        )
    )


def tick(worker: InlineWorker) -> None:
    """What beat does, and the workers."""
    redrives.run_once(worker.driver.database, worker.driver.values)
    worker.consume_all()


def test_with_no_dead_letter_the_page_says_so(visit: Visit) -> None:
    visit.open("/dead-letters")
    visit.see("None open.")
    visit.open("/redrives")
    visit.see("pipeweave dlq retry-all")
    visit.axe()


def test_a_canary_that_fails_again_stops_the_redrive_before_the_rest(
    visit: Visit, worker: InlineWorker, failed: UUID
) -> None:
    visit.open("/dead-letters")
    visit.see("unchanged since")
    visit.page.locator(".groups").get_by_role("link", name="Redrive…").first.click()
    visit.page.get_by_text("What is sent").click()
    shown = visit.page.locator("[data-confirm-form]").inner_text()
    assert "retries 9 dead letters in 1 group" in shown
    assert "has not changed since the failure" in shown
    assert '"canary": 3' in shown
    assert "pipeweave dlq retry-all" in shown
    visit.page.get_by_role("button", name="Redrive", exact=True).click()
    visit.page.wait_for_url("**/redrives/*")
    tick(worker)
    visit.see("3 of 9 done")
    tick(worker)
    visit.see("It stopped by itself: 3 of 3 retries that ended failed again in the same way")
    visit.axe()
    assert len(still_open(worker.driver, failed)) == len(WIDE)
    [row] = worker.driver.rows(
        "SELECT status FROM redrives WHERE tenant_id = :tenant", tenant=worker.driver.tenant
    )
    assert row.status == "stopped"


def test_one_dead_letter_shows_its_traceback_and_is_retried(
    visit: Visit, worker: InlineWorker, failed: UUID
) -> None:
    visit.open("/dead-letters")
    visit.page.locator("tbody").last.get_by_role("link").first.click()
    visit.page.get_by_role("button", name="Copy the traceback").first.wait_for()
    assert visit.page.locator(".traceback pre").count()
    visit.axe()
    visit.page.get_by_role("link", name="Retry", exact=True).click()
    visit.page.get_by_role("button", name="Retry", exact=True).click()
    visit.see("Its retry")
    assert len(still_open(worker.driver, failed)) == len(WIDE) - 1


def test_a_group_is_discarded_with_a_reason(visit: Visit, worker: InlineWorker, failed: UUID) -> None:
    visit.open("/dead-letters")
    visit.page.locator(".groups").get_by_role("link", name="Discard…").first.click()
    visit.see("discards 9 dead letters")
    visit.page.get_by_label("Reason").fill("<b>known</b>, and fixed since")
    visit.page.get_by_role("button", name="Discard all").click()
    visit.see("None open.")
    visit.open("/dead-letters?status=discarded")
    visit.page.locator("tbody").last.get_by_role("link").first.click()
    visit.see("<b>known</b>, and fixed since")


def test_a_redrive_works_with_the_keyboard_alone(visit: Visit, worker: InlineWorker, failed: UUID) -> None:
    visit.open("/dead-letters")
    link = visit.page.locator(".groups").get_by_role("link", name="Redrive…").first
    link.focus()
    visit.page.keyboard.press("Enter")
    visit.see("What is sent")
    button = visit.page.get_by_role("button", name="Redrive", exact=True)
    for _ in range(40):
        if button.evaluate("each => each === document.activeElement"):
            break
        visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/redrives/*")


def test_reading_works_without_scripts(
    browser: Browser, server: str, worker: InlineWorker, failed: UUID, make_token: Callable[..., str]
) -> None:
    token = make_token(READ, WRITE)
    with visiting(browser, server, worker.driver.tenant, token, java_script_enabled=False) as visit:
        visit.open("/dead-letters")
        visit.page.locator(".groups").get_by_role("link", name="Redrive…").first.click()
        visit.page.get_by_role("button", name="Redrive", exact=True).click()
        visit.page.wait_for_url("**/redrives/*")


def test_the_list_breaks_no_rule_of_accessibility(
    browser: Browser,
    server: str,
    worker: InlineWorker,
    failed: UUID,
    make_token: Callable[..., str],
) -> None:
    token = make_token(READ, WRITE)
    with visiting(browser, server, worker.driver.tenant, token) as visit:
        visit.open("/dead-letters")
        visit.axe_in_both_themes(WIDE_WINDOW, PHONE)
