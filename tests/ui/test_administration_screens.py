"""Access, audit and settings: what administrators see and do, and others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, WIDE, Visit, visiting
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave import ids
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.security import ADMIN, READ, access_tokens
from pipeweave.orchestrator.security.audit import Actor, Note, write
from pipeweave.orchestrator.store.database import Database

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"


@pytest.fixture
def admin(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> Iterator[Visit]:
    """An administrator of the test's tenant."""
    with visiting(browser, server, driver.tenant, make_token(ADMIN)) as visit:
        yield visit


@pytest.fixture
def owner(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> Iterator[Visit]:
    """An administrator of every tenant."""
    with visiting(browser, server, driver.tenant, make_token(ADMIN, tenants=("*",))) as visit:
        yield visit


def hostile_rows(database: Database, tenant: str) -> None:
    """A token and a row of the audit whose texts are markup."""
    with database.transaction() as tx:
        access_tokens.create_token(tx, name=HOSTILE, tenants=[tenant], scopes=[READ])
        note = Note(Actor("token", HOSTILE), HOSTILE, "task", tenant, HOSTILE, {HOSTILE: HOSTILE}, HOSTILE)
        write(tx, note, {HOSTILE: 1}, {HOSTILE: HOSTILE})


def test_a_new_token_is_shown_once(admin: Visit, database: Database) -> None:
    page = admin.open("/access")
    page.get_by_role("link", name="Create a token").click()
    page.get_by_label("Name").fill("made here")
    page.get_by_role("button", name="Create a token").click()
    admin.see("it cannot be shown again")
    token = page.locator(".copied code").inner_text()
    with database.transaction() as tx:
        found = access_tokens.verify(tx, token)
    assert found is not None and (found.tenants, found.scopes) == ((admin.tenant,), (READ,))
    page.get_by_role("link", name="Go on").click()
    admin.see("made here")
    assert token not in page.content()


def test_a_token_is_revoked_and_the_audit_says_by_whom(admin: Visit, database: Database) -> None:
    with database.transaction() as tx:
        token = access_tokens.create_token(tx, name="to go", tenants=[admin.tenant], scopes=[READ])
    page = admin.open("/access")
    page.get_by_role("row", name="to go").get_by_role("link", name="Revoke").click()
    page.get_by_role("button", name="Revoke").click()
    admin.see("refused within two seconds")
    with database.transaction() as tx:
        assert access_tokens.verify(tx, token) is None
    admin.open("/audit?verb=access.revoke_token")
    admin.see("alice")


def test_a_tenant_sees_no_row_of_another(admin: Visit, database: Database) -> None:
    with database.transaction() as tx:
        write(tx, Note(Actor("token", "bob"), "queue.pause", "tenant", "elsewhere"), {}, {})
    page = admin.open("/audit?actor=bob")
    admin.see("Nothing matches.")
    assert "elsewhere" not in page.content()


def test_texts_of_others_stay_text(admin: Visit, database: Database) -> None:
    hostile_rows(database, admin.tenant)
    for path in ("/access", "/access?tab=sessions", "/access?tab=tenants", "/audit"):
        admin.open(path)
        assert admin.page.locator("img").count() == 0
    page = admin.open("/audit")
    page.locator("summary", has_text="onerror").click()
    assert HOSTILE in page.locator("main").inner_text() and "49" not in page.locator("main").inner_text()


def test_the_owner_sees_settings_without_secrets_and_checks_the_deployment(owner: Visit) -> None:
    page = owner.open("/settings")
    row = page.locator("#setting-PIPEWEAVE_SECRET_KEY")
    assert "***" in row.inner_text() and "5e5e" not in page.content()
    page.get_by_role("link", name="Check the deployment").click()
    page.get_by_role("button", name="Check the deployment").click()
    owner.see("What was found")
    assert page.get_by_role("row").count() > 5
    owner.axe()


def test_the_owner_sees_the_months_of_history_and_verifies_a_sample(owner: Visit, driver: RunDriver) -> None:
    driver.store({"only": []}, id="verified")
    driver.trigger("verified")
    page = owner.open("/settings")
    assert "kept" in page.get_by_role("region", name="Months of history").inner_text()
    page.get_by_role("link", name="Verify a sample").click()
    page.get_by_role("textbox", name="Runs").fill("1")
    page.get_by_role("button", name="Verify a sample").click()
    owner.see("History agrees: 1 runs verified")
    owner.axe()


def test_a_tenant_of_another_is_not_there_and_nothing_of_it_is_kept(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str], database: Database
) -> None:
    driver.store({"only": []}, id="private")
    run = ids.show(ids.RUN, driver.trigger("private"))
    with database.transaction() as tx:
        tenants.ensure_tenant(tx, "next-door")
    with visiting(browser, server, driver.tenant, make_token(READ)) as visit:
        visit.open("/runs")
        visit.see("private")
    with visiting(browser, server, "next-door", make_token(READ, tenants=("next-door",))) as other:
        page = other.open("/runs")
        other.see("No run yet")
        assert run not in page.content()
        other.open(f"/runs/{run}", status=404)
        other.expected.append("status of 404")
        answer = page.goto(f"{server}/ui/{driver.tenant}/runs")
        assert answer is not None and answer.status == 404
        assert run not in page.content() and "private" not in page.content()
    # One person in both: the switch keeps the screen, and each tenant has its own rows.
    both = make_token(READ, tenants=(driver.tenant, "next-door"))
    with visiting(browser, server, driver.tenant, both) as visit:
        page = visit.open("/runs")
        visit.see("private")
        page.goto(f"{server}/ui/next-door/runs")
        visit.see("No run yet")
        assert "private" not in page.content()
        answer = page.goto(f"{server}/ui/r/{run}")
        assert answer is not None and page.url == f"{visit.root}/runs/{run}"


def test_an_administrator_of_a_tenant_sees_no_settings_of_the_deployment(admin: Visit) -> None:
    page = admin.open("/settings")
    admin.see("concern every tenant")
    assert page.locator("#maintenance").count() == 0
    page.get_by_role("link", name="Change the limit").click()
    page.get_by_label("Active runs at most").fill("3")
    page.get_by_role("button", name="Limit").click()
    admin.see("0 of 3 at most")


def test_maintenance_is_told_on_every_page_and_ended_on_one(
    owner: Visit, visit: Visit, database: Database, driver: RunDriver
) -> None:
    driver.begin({"a": []})
    page = owner.open("/settings")
    page.get_by_role("link", name="Request maintenance").click()
    owner.see("new triggers, queued tasks and retries are refused")
    owner.see("maintenance begins when nothing is open any more")
    page.get_by_label("Reason").fill("new disks")
    try:
        page.get_by_role("button", name="Request maintenance").click()
        owner.see("Nothing new is accepted.")
        # The sentence is read once in two seconds.
        wait_until(lambda: owner.open("/runs").locator(".banner").count() == 1, what="the banner")
        told = page.locator(".banner").inner_text()
        assert "Maintenance: New work is refused" in told and "«new disks»" in told
        # Another tenant's reader learns that nothing is accepted, and nothing of the others.
        visit.open("/runs")
        told = visit.page.locator(".banner").inner_text()
        assert "Maintenance: New work is refused" in told and "«" not in told
        page = owner.open("/settings")
        # What another request read a moment before may be shown first.
        shown = page.locator("#maintenance")
        expect(shown).to_contain_text("new disks")
        expect(shown).to_contain_text("Empty in")
        page.get_by_role("link", name="End maintenance").click()
        page.get_by_role("button", name="End maintenance").click()
        owner.see("New work is accepted.")
    finally:
        with database.transaction() as tx:
            if maintenance_mode.mode(tx) != maintenance_mode.RUNNING:
                maintenance_mode.leave(tx, None)
    wait_until(lambda: owner.open("/runs").locator(".banner").count() == 0, what="no banner")


def test_who_may_only_read_is_told_the_scope(visit: Visit) -> None:
    for path in ("/access", "/audit"):
        visit.open(path, status=403)
        visit.see("admin")


def test_the_screens_break_no_rule_of_accessibility(
    browser: Browser,
    server: str,
    driver: RunDriver,
    database: Database,
    make_token: Callable[..., str],
) -> None:
    hostile_rows(database, driver.tenant)
    token = make_token(ADMIN, tenants=("*",))
    with visiting(browser, server, driver.tenant, token) as visit:
        for path in ("/access", "/access?tab=sessions", "/access?tab=tenants", "/audit", "/settings"):
            visit.open(path)
            visit.axe_in_both_themes(WIDE, PHONE)
