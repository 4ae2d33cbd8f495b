"""Logging in and out in a real browser, with a token and with a link."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page
from support.browser import PHONE, WIDE, Visit, visiting
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave import Client, ids
from pipeweave.orchestrator.security import READ, WRITE, access_tokens
from pipeweave.orchestrator.store.database import Database


@pytest.fixture
def stranger(browser: Browser, server: str, driver: RunDriver) -> Iterator[Visit]:
    """Somebody who has not logged in."""
    with visiting(browser, server, driver.tenant) as visit:
        yield visit


def log_in(visit: Visit, secret: str, path: str = "/runs", *, is_wrong: bool = False) -> Page:
    visit.page.goto(f"{visit.root}{path}")
    assert "/ui/login?next=" in visit.page.url
    visit.page.get_by_label("Access token").fill(secret)
    visit.page.get_by_role("button", name="Log in").click()
    visit.page.wait_for_url("**/ui/login" if is_wrong else f"{visit.root}{path}")
    return visit.page


def test_a_token_logs_in_and_leads_to_the_page_that_was_asked_for(
    stranger: Visit, make_token: Callable[..., str]
) -> None:
    page = log_in(stranger, make_token(READ), "/runs?status=failed")
    page.wait_for_url("**/runs?status=failed")
    (cookie,) = stranger.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax" and cookie["name"].startswith("pipeweave-")
    assert page.evaluate("document.cookie") == ""
    stranger.see("read only")


def test_a_verb_is_done_in_the_name_of_the_session(
    stranger: Visit, make_token: Callable[..., str], driver: RunDriver
) -> None:
    driver.store({"a": []})
    run_id = driver.trigger("driven")
    page = log_in(stranger, make_token(READ, WRITE))
    stranger.open(f"/do/runs.cancel?id={ids.show(ids.RUN, run_id)}&next=/ui/{driver.tenant}/runs")
    page.get_by_role("button", name="Cancel run").click()
    stranger.see("The run is cancelled.")


def test_a_link_logs_in_once_and_leaves_no_code_behind(
    stranger: Visit, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    link = Client(server, make_token(READ), driver.tenant).login_link(f"/ui/{driver.tenant}/runs")
    stranger.page.goto(link)
    stranger.page.wait_for_url(f"**/ui/{driver.tenant}/runs")
    code = link.partition("#")[2]
    stranger.page.go_back()
    assert code not in stranger.page.url
    stranger.context.clear_cookies()
    stranger.expected.append("status of 401")
    # Another page first: only the fragment would change, and that loads nothing.
    stranger.page.goto(f"{server}/docs")
    stranger.page.goto(link)
    stranger.see("no valid token or login code")


def test_a_wrong_token_is_told_and_can_be_corrected(stranger: Visit, make_token: Callable[..., str]) -> None:
    stranger.expected.append("status of 401")
    log_in(stranger, "pw_wrong", is_wrong=True)
    stranger.see("no valid token or login code")
    stranger.axe()
    stranger.page.get_by_label("Access token").fill(make_token(READ))
    stranger.page.get_by_role("button", name="Log in").click()
    stranger.page.wait_for_url("**/runs")


def test_a_logout_ends_the_session_for_good(stranger: Visit, make_token: Callable[..., str]) -> None:
    page = log_in(stranger, make_token(READ))
    (cookie,) = stranger.context.cookies()
    page.locator("details.me summary").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/ui/login")
    assert stranger.context.cookies() == []
    stranger.context.add_cookies([cookie])
    page.goto(f"{stranger.root}/runs")
    assert "/ui/login?next=" in page.url


def test_a_revoked_token_logs_out_within_two_seconds(
    stranger: Visit, driver: RunDriver, database: Database
) -> None:
    with database.transaction() as tx:
        made = access_tokens.make_token(tx, name="short-lived", tenants=[driver.tenant], scopes=[READ])
    page = log_in(stranger, made.token)
    with database.transaction() as tx:
        access_tokens.revoke(tx, "short-lived")
    # What was looked up before is kept for 2 s at most.
    asked = stranger.context.request
    wait_until(lambda: asked.get(page.url, max_redirects=0).status == 303, what="the end of the session")
    page.reload()
    assert "/ui/login?next=" in page.url


def test_without_scripts_a_token_logs_in_too(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    with visiting(browser, server, driver.tenant, java_script_enabled=False) as visit:
        page = log_in(visit, make_token(READ))
        assert page.url.endswith("/runs")


def test_the_login_breaks_no_rule_of_accessibility(browser: Browser, server: str) -> None:
    with visiting(browser, server, "default") as visit:
        visit.page.goto(f"{server}/ui/login")
        visit.axe_in_both_themes(WIDE, PHONE)


def test_an_open_page_says_that_its_session_has_ended_and_leads_back_after_the_login(
    stranger: Visit, database: Database, make_token: Callable[..., str]
) -> None:
    with database.transaction() as tx:
        made = access_tokens.make_token(tx, name="ends", tenants=[stranger.tenant], scopes=[READ])
    page = log_in(stranger, made.token, "/runs?status=failed")
    stranger.see("live")
    stranger.expected.append("status of 401")
    with database.transaction() as tx:
        access_tokens.revoke(tx, "ends")
    page.get_by_role("alert").get_by_text("You were logged out.").wait_for()
    assert page.locator("#live").get_attribute("data-state") == "out"
    stranger.see("No run matches.")
    stranger.axe_in_both_themes()
    page.get_by_role("link", name="Log in").click()
    page.get_by_label("Access token").fill(make_token(READ))
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/runs?status=failed")
    stranger.see("live")


def test_a_login_in_another_tab_revives_the_page(
    stranger: Visit, database: Database, make_token: Callable[..., str]
) -> None:
    with database.transaction() as tx:
        made = access_tokens.make_token(tx, name="ends too", tenants=[stranger.tenant], scopes=[READ])
    page = log_in(stranger, made.token)
    stranger.see("live")
    stranger.expected.append("status of 401")
    with database.transaction() as tx:
        access_tokens.revoke(tx, "ends too")
    stranger.see("You were logged out.")
    other = stranger.context.new_page()
    other.goto(f"{stranger.server}/ui/login")
    other.get_by_label("Access token").fill(make_token(READ))
    other.get_by_role("button", name="Log in").click()
    other.wait_for_url("**/ui/*/")
    other.close()
    page.locator("#logged-out").wait_for(state="detached")
