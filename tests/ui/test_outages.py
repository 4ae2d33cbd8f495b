"""A page stays open while the API is killed or hangs, and PostgreSQL goes: it says so, then it is fresh."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, expect
from support.api_server import Server, running_api
from support.browser import Visit, visiting
from support.last_tick import last_tick
from support.run_driver import RunDriver

from chaos.proxy import Proxy, proxy_to
from pipeweave import ids
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.security import READ
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.up.postgres import Postgres


@pytest.fixture
def proxy(postgres_server: Postgres) -> Iterator[Proxy]:
    """The way from the API to PostgreSQL."""
    with proxy_to(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def api(
    database_url: str, broker_url: str, postgres_server: Postgres, proxy: Proxy, tmp_path: Path
) -> Iterator[Server]:
    """An API of this test's own, which may be killed."""
    url = database_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    settings = Settings(database_url=url, broker_url=broker_url, data_dir=str(tmp_path), secret_key="5e" * 32)
    with running_api(settings, tmp_path) as server:
        yield server


@pytest.fixture
def reader(
    browser: Browser, api: Server, driver: RunDriver, make_token: Callable[..., str]
) -> Iterator[Visit]:
    """Somebody who looks at the runs that run, in a browser that may not reach the API."""
    driver.store({"a": []})
    with visiting(browser, api.url, driver.tenant, make_token(READ)) as visit:
        visit.expected += ["ERR_", "status of 50", "Failed to load"]
        visit.open("/runs?status=running")
        expect(visit.page.locator("#live")).to_have_attribute("data-state", "live")
        yield visit


def test_a_page_whose_api_was_killed_says_so_until_it_is_back(
    reader: Visit, api: Server, driver: RunDriver
) -> None:
    page = reader.page
    live, away = page.locator("#live"), page.locator("#away")
    api.kill()
    expect(live).to_have_text("not connected")
    expect(away).to_contain_text("Not connected since")
    expect(away).to_contain_text("Trying again in")
    missed = ids.show(ids.RUN, driver.trigger())
    reader.see("No run")
    api.start_again()
    with suppress(Error):
        # It may be back before anybody can press it.
        away.get_by_role("button", name="Try now").click(timeout=1_000)
    # What happened meanwhile is there, without a reload.
    expect(away).to_have_count(0)
    expect(live).to_have_attribute("data-state", "live")
    page.locator(f"#{missed}").or_(page.get_by_text("new ↑")).first.wait_for()


def test_a_page_whose_api_hangs_says_so_until_it_goes_on(reader: Visit, api: Server) -> None:
    live = reader.page.locator("#live")
    api.signal(signal.SIGSTOP)
    try:
        # No connection ends: only the signs of life are missing.
        expect(live).to_have_attribute("data-state", "away", timeout=30_000)
        reader.see("Not connected since")
    finally:
        api.signal(signal.SIGCONT)
    expect(reader.page.locator("#away")).to_have_count(0, timeout=30_000)
    expect(live).to_have_attribute("data-state", "live")


def test_a_page_outlives_a_database_that_is_away(reader: Visit, proxy: Proxy, driver: RunDriver) -> None:
    page = reader.page
    proxy.cut()
    # The stream is open, and says nothing more than what was under way.
    expect(page.locator("#live")).to_have_attribute("data-state", "away", timeout=60_000)
    missed = ids.show(ids.RUN, driver.trigger())
    # As after a restart: no connection is left, and new ones work.
    proxy.mend(delivers=False)
    page.locator(f"#{missed}").or_(page.get_by_text("new ↑")).first.wait_for(timeout=60_000)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.reload()
    expect(page.locator(f"#{missed}")).to_have_count(1)


def test_a_beat_that_died_is_told_on_the_open_overview(
    visit: Visit, driver: RunDriver, database: Database
) -> None:
    driver.store({"a": []})
    run = ids.show(ids.RUN, driver.trigger())
    page = visit.open("/")
    told = page.get_by_text("is beat running?")
    page.locator(f"a[href$='{run}']").first.wait_for()
    assert told.count() == 0
    try:
        last_tick(database, "-1 hour")
        told.wait_for(timeout=60_000)
        assert "The last tick was" in told.inner_text()
        with database.transaction() as tx:
            tick_status.record(tx)
        told.wait_for(state="detached", timeout=60_000)
    finally:
        last_tick(database, "1 day")
