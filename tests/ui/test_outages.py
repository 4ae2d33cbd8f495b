"""A page stays open while the API is killed and PostgreSQL goes: it says how old it is, then it is fresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
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


def test_a_page_outlives_the_api_and_the_database(
    browser: Browser, api: Server, proxy: Proxy, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    driver.store({"a": []})
    with visiting(browser, api.url, driver.tenant, make_token(READ)) as visit:
        visit.expected += ["ERR_", "status of 50", "Failed to load"]
        page = visit.page
        page.clock.install()
        visit.open("/runs?status=running")
        live = page.locator("#live")
        expect(live).to_have_attribute("data-state", "live")
        api.kill()
        missed = ids.show(ids.RUN, driver.trigger())
        page.clock.fast_forward(15_000)
        expect(live).to_have_attribute("data-state", "stale")
        expect(live).to_contain_text("no news for")
        visit.see("No run")
        api.start_again()
        # What happened meanwhile is there, without a reload.
        expect(live).to_have_attribute("data-state", "live", timeout=30_000)
        page.locator(f"#{missed}").or_(page.get_by_text("new ↑")).first.wait_for(timeout=30_000)
        proxy.cut()
        # The stream is open, and says nothing more than what was under way.
        for _ in range(5):
            page.clock.fast_forward(30_000)
            with suppress(AssertionError):
                expect(live).to_have_attribute("data-state", "stale", timeout=5_000)
                break
        expect(live).to_have_attribute("data-state", "stale")
        again = ids.show(ids.RUN, driver.trigger())
        # As after a restart: no connection is left, and new ones work.
        proxy.mend(delivers=False)
        page.locator(f"#{again}").or_(page.get_by_text("new ↑")).first.wait_for(timeout=60_000)
        page.reload()
        for each in (missed, again):
            expect(page.locator(f"#{each}")).to_have_count(1)


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
