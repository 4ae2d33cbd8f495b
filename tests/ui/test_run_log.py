"""The log of an attempt in a browser: found, selected, copied and followed as any text of a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Browser, expect
from support.browser import Visit, visiting
from support.run_driver import PERMANENT, RunDriver, claim

from pipeweave import ids
from pipeweave.orchestrator.security import READ
from pipeweave.storage.local import LocalStorage

LINES = 3_000
HOSTILE = "<img src=x onerror=alert(1)>"


def log_line(number: int) -> str:
    levels = {1: "debug", 7: "error"}
    message = {2: "\x1b[1;31mred\x1b[0m plain", 3: HOSTILE, 2_345: "needle in the log"}.get(number)
    line = {
        "time": f"2026-11-20T12:00:00.{number % 1_000:03}Z",
        "level": levels.get(number, "info"),
        "message": message or f"line {number}",
        "rows": number if number == 5 else None,
    }
    return json.dumps(line)


@pytest.fixture
def running(driver: RunDriver) -> UUID:
    """A run whose only step runs."""
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1)
    return run_id


@pytest.fixture
def write(running: UUID, server_folder: Path) -> Callable[[int], None]:
    """Stores so many lines as the log of the step."""
    storage = LocalStorage(server_folder / "storage")
    path = f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(running, 1))}.1/logs.jsonl"

    def stored(lines: int) -> None:
        storage.put(path, "".join(f"{log_line(number)}\n" for number in range(1, lines + 1)).encode())

    return stored


def address(run_id: UUID, **more: object) -> str:
    query = "".join(f"&{name}={value}" for name, value in more.items())
    return f"/runs/{ids.show(ids.RUN, run_id)}?tab=log&step=a{query}"


def test_a_run_that_goes_on_counts_its_seconds_and_shows_what_it_logs(
    visit: Visit, running: UUID, write: Callable[[int], None]
) -> None:
    write(40)
    visit.page.clock.install()
    page = visit.open(f"/runs/{ids.show(ids.RUN, running)}")
    counted = page.locator("[data-since]")
    expect(counted).to_have_count(3)
    page.clock.pause_at(datetime.now(UTC) + timedelta(minutes=5))
    expect(page.locator(".run-facts")).to_contain_text("for 5 min")
    for each in counted.all():
        expect(each).to_contain_text("5 min")
    lines = page.locator(".tail .ln")
    expect(lines).to_have_count(20)
    expect(lines.last).to_contain_text("line 40")
    page.clock.resume()
    visit.axe()


def test_the_whole_log_is_text_of_the_page_and_follows(
    visit: Visit, running: UUID, write: Callable[[int], None]
) -> None:
    write(LINES)
    visit.open(address(running))
    page = visit.page
    expect(page.locator(".told")).to_contain_text("3,000 lines, and goes on")
    # The browser finds what is far away, and selects and copies it, without a list that hides rows.
    assert page.evaluate("() => window.find('needle in the log')")
    text = page.evaluate(
        "() => { getSelection().selectAllChildren(document.querySelector('.log'));"
        " return getSelection().toString() }"
    )
    assert text.count("line ") >= 2_000
    assert page.locator("img").count() == 0
    expect(page.locator("#L2 .ansi-c1")).to_have_text("red")
    assert page.locator("#L5").inner_text().endswith('{"rows":5}')
    write(LINES + 1)
    page.locator(f"#L{LINES + 1}").wait_for()
    at_end = "node => node.scrollHeight - node.scrollTop - node.clientHeight < 40"
    assert page.locator(".log").evaluate(at_end)


def test_a_line_has_a_link_and_a_text_is_found(
    visit: Visit, running: UUID, write: Callable[[int], None]
) -> None:
    write(LINES)
    visit.open(address(running, line="1200-1202"))
    marked = visit.page.locator(".ln.marked")
    expect(marked).to_have_count(3)
    expect(marked.first).to_be_in_viewport()
    visit.open(address(running, find="NEEDLE"))
    visit.see("1 lines have")
    expect(visit.page.locator(".ln")).to_have_count(1)
    visit.page.locator(".ln .no").click()
    expect(visit.page.locator("#L2345")).to_be_in_viewport()
    visit.open(address(running, level="error"))
    expect(visit.page.locator(".ln")).to_have_count(1)


def test_a_log_keeps_the_rules_of_accessibility(
    visit: Visit, running: UUID, write: Callable[[int], None]
) -> None:
    write(20)
    visit.open(address(running))
    expect(visit.page.locator(".ln")).to_have_count(20)
    visit.axe()


def test_without_a_step_the_log_of_the_whole_run_is_shown_and_grows(
    visit: Visit, running: UUID, write: Callable[[int], None]
) -> None:
    write(8)
    page = visit.open(f"/runs/{ids.show(ids.RUN, running)}?tab=log")
    lines = page.locator(".merged .ln")
    expect(lines).to_have_count(8)
    expect(lines.nth(1)).to_have_text("12:00:00.002 a red plain")
    assert page.locator(".merged img").count() == 0
    write(9)
    expect(lines).to_have_count(9, timeout=30_000)
    visit.axe_in_both_themes()
    page.get_by_label("Level").select_option("error")
    expect(lines).to_have_count(1)
    lines.get_by_role("link", name="a").click()
    expect(page.get_by_label("Attempt")).to_have_value("1")


def test_without_scripts_the_end_is_shown_and_the_rest_is_a_link_away(
    browser: Browser,
    server: str,
    driver: RunDriver,
    running: UUID,
    write: Callable[[int], None],
    make_token: Callable[..., str],
) -> None:
    write(LINES)
    with visiting(browser, server, driver.tenant, make_token(READ), java_script_enabled=False) as visit:
        visit.open(address(running))
        expect(visit.page.locator(".ln")).to_have_count(500)
        assert visit.page.locator(".ln").last.get_attribute("id") == f"L{LINES}"
        visit.page.get_by_role("link", name="From the beginning").click()
        expect(visit.page.locator("#L1")).to_be_visible()
        expect(visit.page.locator("#L2 .ansi-bold.ansi-c1")).to_have_text("red")
        visit.page.get_by_role("link", name="Later lines").click()
        expect(visit.page.locator("#L501")).to_be_visible()


def test_a_step_that_failed_shows_the_end_of_its_log_beside_its_error(
    visit: Visit, driver: RunDriver, server_folder: Path
) -> None:
    run_id = driver.begin({"a": []})
    path = f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 1))}.1/logs.jsonl"
    text = "".join(f"{log_line(number)}\n" for number in range(1, 10))
    LocalStorage(server_folder / "storage").put(path, text.encode())
    driver.finish(run_id, "a", failure=PERMANENT)
    visit.open(f"/runs/{ids.show(ids.RUN, run_id)}")
    lines = visit.page.locator("#step .tail .ln")
    expect(lines).to_have_count(6)
    expect(lines.last).to_contain_text("line 9")
    expect(lines.nth(3)).to_contain_text("error line 7")
    visit.axe_in_both_themes()


def test_times_of_logs_and_events_are_in_the_readers_zone(
    browser: Browser,
    server: str,
    driver: RunDriver,
    running: UUID,
    write: Callable[[int], None],
    make_token: Callable[..., str],
) -> None:
    write(3)
    here = {"timezone_id": "Asia/Kolkata", "locale": "en-GB"}
    with visiting(browser, server, driver.tenant, make_token(READ), **here) as visit:
        page = visit.open(f"/runs/{ids.show(ids.RUN, running)}?tab=log")
        second = page.locator(".ln time").nth(1)
        expect(second).to_have_text("17:30:00.002")
        assert "2026-11-20T12:00:00.002Z" in (second.get_attribute("title") or "")
        visit.open(address(running))
        expect(page.locator("#L2 time[data-plain]")).to_have_text("17:30:00.002")
        assert page.locator("#L2 time").get_attribute("title") == "2026-11-20T12:00:00.002Z"
        visit.open(f"/runs/{ids.show(ids.RUN, running)}?tab=events")
        first = page.locator("table.events time").first
        local = page.evaluate(
            "at => new Date(at).toLocaleTimeString('en-GB')", first.get_attribute("datetime")
        )
        expect(first).to_have_text(re.compile(f"^{local}"))
