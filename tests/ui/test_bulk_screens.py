"""Many runs at once, as people change them: chosen or by a filter, asked first, followed, stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Browser
from support.browser import PHONE, Visit, visiting
from support.failed_runs import CHAIN, failed_run
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.operations import (
    BulkAction,
    BulkRequest,
    Selection,
    bulk_changes,
    choosing,
    loop,
    run_changes,
)
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.security import ADMIN, READ, WRITE


@pytest.fixture(autouse=True)
def one_tick_does_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MAX_SECONDS_PER_TICK", 600)


def tick(driver: RunDriver) -> None:
    run_changes.run_once(driver.database, driver.values)


def trigger_many(driver: RunDriver, count: int, metadata: dict[str, str]) -> list[UUID]:
    requests = [triggering.StartRequest("many", n, metadata=metadata) for n in range(count)]
    with driver.database.transaction() as tx:
        made = triggering.trigger_many(tx, driver.values, driver.tenant, "many", requests)
    return [each.id for each in made]


def test_five_hundred_that_match_are_cancelled_after_a_dry_run_and_a_typed_number(
    visit: Visit, driver: RunDriver
) -> None:
    driver.store({"a": []}, id="many")
    driver.store({"a": []}, id="other")
    kept = driver.trigger("other")
    made = trigger_many(driver, 500, {"batch": "a,b"})
    other_batch = trigger_many(driver, 1, {"batch": "a"})
    page = visit.open("/runs?pipelineId=many&pipelineId=none&status=running&meta=batch%3Da%2Cb&window=24h")
    page.get_by_text("All that match").click()
    page.get_by_role("link", name="Cancel…").click()
    visit.see("concerns 500 runs: 500 running")
    assert "--pipeline many --pipeline none" in (page.locator("#sent").text_content() or "")
    page.get_by_label("Reason").fill("the wrong day")
    page.get_by_label("Type 500 to confirm").fill("500")
    page.get_by_role("button", name="Cancel runs").click()
    visit.see("The bulk change has begun")
    visit.see("0 of 500 done")
    tick(driver)
    visit.see("500 of 500 done")
    visit.see("the wrong day")
    rows = driver.rows("SELECT status FROM runs WHERE id = ANY(:made)", made=made)
    assert [each.status for each in rows] == ["cancelled"] * 500
    assert driver.run(made[0]).error["message"] == "the wrong day"
    assert {driver.run(each).status for each in (kept, *other_batch)} == {"running"}
    page.get_by_role("link", name="Bulk changes").click()
    page.get_by_role("row", name=re.compile("completed.*cancel.*500")).wait_for()


def test_chosen_runs_are_paused_and_no_other_also_without_scripts(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    driver.store({"a": []}, id="many")
    one, two, three = (driver.trigger("many") for _ in range(3))
    token = make_token(READ, WRITE)
    with visiting(browser, server, driver.tenant, token, java_script_enabled=False) as visit:
        page = visit.open("/runs")
        for each in (one, three):
            page.locator(f"#{ids.show(ids.RUN, each)} input").check()
        page.get_by_role("button", name="Pause…").click()
        visit.see("concerns 2 runs")
        page.get_by_role("button", name="Pause runs").click()
        visit.see("0 of 2 done")
        tick(driver)
        page.reload()
        visit.see("2 of 2 done")
    assert [driver.run(each).status for each in (one, two, three)] == ["paused", "running", "paused"]


def test_what_was_skipped_says_why_and_a_rerun_leads_to_its_run(visit: Visit, worker: InlineWorker) -> None:
    driver = worker.driver
    failed_run(worker, CHAIN, "b", id="one")
    failed_run(worker, {"a": []}, "a", id="two")
    page = visit.open("/runs?status=failed")
    page.get_by_text("All that match").click()
    page.get_by_role("link", name="Run again…").click()
    page.get_by_label("From step").fill("b")
    page.get_by_role("button", name="Run again").click()
    visit.see("0 of 2 done")
    tick(driver)
    visit.see("2 of 2 done")
    page.get_by_role("link", name="skipped", exact=True).click()
    visit.see("has no step 'b'")
    visit.axe()
    page.get_by_role("link", name="run again", exact=True).click()
    # The list that is left has rows, too.
    page.get_by_text("has no step 'b'").wait_for(state="detached")
    page.locator("tbody a").nth(1).click()
    visit.see("repeats")


def test_one_under_way_is_stopped(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []}, id="many")
    run = driver.trigger("many")
    page = visit.open("/runs")
    page.locator(f"#{ids.show(ids.RUN, run)} input").check()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel runs").click()
    visit.see("0 of 1 done")
    page.get_by_role("link", name="Stop…").or_(page.get_by_role("link", name="Stop")).click()
    page.get_by_role("button", name="Stop").click()
    visit.see("It was stopped")
    tick(driver)
    assert driver.run(run).status == "running"


def test_the_screens_can_be_used_by_everybody(
    browser: Browser, server: str, worker: InlineWorker, make_token: Callable[..., str]
) -> None:
    driver = worker.driver
    token = make_token(READ, WRITE)
    with visiting(browser, server, driver.tenant, token, viewport=PHONE) as visit:
        visit.open("/bulk")
        visit.see("No bulk change yet")
        visit.axe_in_both_themes()
        failed_run(worker, CHAIN, "b", id="one")
        request = BulkRequest(BulkAction.RERUN, Selection(RunFilter(status=("failed",))), by="alice")
        counted = choosing.CountedRuns(1)
        bulk = driver.database.run(lambda tx: bulk_changes.create(tx, driver.tenant, request, counted))
        tick(driver)
        for path in ("/bulk", f"/bulk/{ids.show(ids.BULK, bulk)}"):
            visit.open(path)
            visit.axe_in_both_themes()
    with visiting(browser, server, driver.tenant, make_token(READ)) as visit:
        page = visit.open("/runs?status=failed")
        assert page.get_by_text("All that match").count() == 0
        visit.open("/do/bulk.start:cancel?filter.status=failed", status=403)


# --- exports ----------------------------------------------------------------------------------------------


def saved(visit: Visit, link: str) -> tuple[str, list[Any]]:
    """The name of the file that a link saves, and its lines without those of cursors."""
    with visit.page.expect_download() as saving:
        visit.page.locator("main").get_by_role("link", name=link, exact=True).click()
    lines = [json.loads(each) for each in saving.value.path().read_bytes().splitlines()]
    assert lines[-1]["isComplete"] is True
    return saving.value.suggested_filename, [each for each in lines if "cursor" not in each]


@pytest.mark.parametrize("script", [True, False])
def test_what_the_list_shows_is_exported(
    browser: Browser, server: str, worker: InlineWorker, make_token: Callable[..., str], script: bool
) -> None:
    driver = worker.driver
    failed = [failed_run(worker, CHAIN, "b", id=name) for name in ("one", "two", "three")]
    driver.trigger("one")
    # Of a token with several tenants, the address says for which it is.
    token = make_token(READ, tenants=(driver.tenant, "another"))
    with visiting(browser, server, driver.tenant, token, java_script_enabled=script) as visit:
        page = visit.open("/runs?status=failed&status=partial&pipelineId=one&pipelineId=two&window=24h")
        page.get_by_text("Export", exact=True).click()
        command = page.locator(".note .line").inner_text()
        assert command.startswith(f"pipeweave export runs --tenant {driver.tenant} --status failed --status")
        name, rows = saved(visit, "Runs")
        assert name.startswith(f"{driver.tenant}-runs-") and name.endswith(".ndjson")
        assert [each["id"] for each in rows] == [ids.show(ids.RUN, each) for each in failed[:2]]
        _, rows = saved(visit, "Attempts")
        assert {each["runId"] for each in rows} == {ids.show(ids.RUN, each) for each in failed[:2]}
        if script:
            visit.axe()
        visit.open("/export/everything", status=404)
        visit.open("/export/audit", status=403)


def test_the_audit_is_exported_as_it_is_filtered(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    driver.store({"a": []}, id="many")
    run = driver.trigger("many")
    with visiting(browser, server, driver.tenant, make_token(ADMIN, WRITE, READ)) as visit:
        page = visit.open(f"/do/runs.cancel?id={ids.show(ids.RUN, run)}")
        page.get_by_role("button", name="Cancel run").click()
        visit.see("The run is cancelled")
        visit.open("/audit?verb=runs.pause")
        visit.see("Nothing matches")
        visit.open("/audit?verb=runs.cancel")
        _, [row] = saved(visit, "Export as NDJSON")
        assert (row["verb"], row["object"]) == ("runs.cancel", ids.show(ids.RUN, run))
        visit.axe()


# --- enqueued runs ----------------------------------------------------------------------------------------

_REFUSED = """
INSERT INTO enqueued_runs (tenant_id, pipeline_id, settled_at, error_code, error)
VALUES (:tenant, 'charge', now(), 'INVALID_INPUT', '<b>order</b> is required') RETURNING 1
"""


def test_enqueued_runs_say_why_they_have_not_started(visit: Visit, driver: RunDriver) -> None:
    page = visit.open("/queues")
    page.get_by_role("link", name="Enqueued runs").click()
    visit.see("None waits")
    visit.axe()
    driver.rows(_REFUSED, tenant=driver.tenant)
    visit.open("/")
    page.get_by_role("link", name="An enqueued run of charge was refused: INVALID_INPUT").click()
    visit.see("<b>order</b> is required")
    visit.axe()
