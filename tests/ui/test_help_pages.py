"""The pages of help in a browser, under the policy with which they are served."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, WIDE, Visit, visiting
from support.built_help import built_help
from werkzeug.serving import make_server

from pipeweave.api import create_app
from pipeweave.api.http import help_site
from pipeweave.settings import Settings


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on a free port, with the site as `make docs` builds it."""
    settings = Settings(
        database_url="postgresql://pipeweave@127.0.0.1:1/nobody",
        broker_url="redis://127.0.0.1:1/0",
        data_dir=str(tmp_path_factory.mktemp("data")),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(help_site, "FOLDER", built_help(tmp_path_factory.mktemp("help")))
        server = make_server("127.0.0.1", 0, create_app(settings), threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def reader(browser: Browser, url: str) -> Iterator[Visit]:
    """Somebody without a token. What breaks the policy, or asks another host, fails the test."""
    with visiting(browser, url, "-") as visit:
        yield visit


def test_a_page_leads_to_another_one(reader: Visit, url: str) -> None:
    reader.page.goto(f"{url}/help")
    expect(reader.page.locator("h1")).to_contain_text("PipeWeave")
    reader.page.locator("article").get_by_role("link", name="waits").click()
    expect(reader.page.locator("h1")).to_contain_text("Waits")
    assert reader.page.url == f"{url}/help/waits.html"


def test_the_search_finds_a_word(reader: Visit, url: str) -> None:
    reader.page.goto(f"{url}/help/?q=backfill")
    found = reader.page.locator(".md-search-result__link[href*='/help/schedules.html']").first
    expect(found).to_contain_text("Schedules")
    found.click()
    expect(reader.page.locator("h1")).to_contain_text("Schedules")


def test_the_reader_chooses_light_or_dark_and_it_stays(reader: Visit, url: str) -> None:
    reader.page.emulate_media(color_scheme="dark")
    reader.page.goto(f"{url}/help/")
    expect(reader.page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    reader.page.get_by_title("Switch to light").click()
    expect(reader.page.locator("body")).to_have_attribute("data-md-color-scheme", "default")
    reader.page.goto(f"{url}/help/decisions/index.html")
    expect(reader.page.locator("body")).to_have_attribute("data-md-color-scheme", "default")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_page_needs_no_sideways_scrolling(reader: Visit, url: str, size: dict[str, int]) -> None:
    reader.page.set_viewport_size(size)
    for page in ("index", "cli", "state-machine", "coming-from/state-machines"):
        reader.page.goto(f"{url}/help/{page}.html")
        assert reader.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, page
