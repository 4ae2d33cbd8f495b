"""A real API on a real PostgreSQL for all tests of a process, and a real browser for those of a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from support.api_server import running_api
from support.browser import BROWSERS, Visit, visiting
from support.inline_worker import InlineWorker
from support.last_tick import last_tick
from support.run_driver import RunDriver

from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.security import READ, WRITE, access_tokens
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings


# Of each file anew: as long as it is open, this thread counts as one with a running event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # .ci/run names the browser it found; when that one does not start, it is a failure and no reason to skip.
    named = os.environ.get("PIPEWEAVE_TEST_BROWSER")
    found = named or next((path for path in BROWSERS if Path(path).exists()), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that process keeps its files."""
    return tmp_path_factory.mktemp("ui")


@pytest.fixture(scope="session")
def server(database_url: str, broker_url: str, server_folder: Path, database: Database) -> Iterator[str]:
    """The address of a real API process."""
    last_tick(database, "1 day")
    settings = Settings(
        database_url=database_url, broker_url=broker_url, data_dir=str(server_folder), secret_key="5e" * 32
    )
    with running_api(settings, server_folder) as api:
        yield api.url


@pytest.fixture(scope="session")
def database(database_url: str) -> Iterator[Database]:
    """The database of that process."""
    opened = Database(database_url, react=reactions_to)
    yield opened
    opened.dispose()


@pytest.fixture
def driver(database: Database) -> RunDriver:
    """A tenant of this test alone, whose runs the test drives by hand."""
    return RunDriver(database)


@pytest.fixture
def worker(driver: RunDriver) -> InlineWorker:
    """A worker of that tenant, in the test's own thread."""
    return InlineWorker(driver)


@pytest.fixture
def make_token(database: Database, driver: RunDriver) -> Callable[..., str]:
    """Makes a token of the test's tenant with these scopes."""

    def make(*scopes: str, tenants: tuple[str, ...] | None = None) -> str:
        with database.transaction() as tx:
            return access_tokens.create_token(
                tx, name="alice", tenants=tenants or (driver.tenant,), scopes=scopes
            )

    return make


@pytest.fixture
def visit(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> Iterator[Visit]:
    """Somebody who may read and write in the test's tenant."""
    with visiting(browser, server, driver.tenant, make_token(READ, WRITE)) as visit:
        yield visit
