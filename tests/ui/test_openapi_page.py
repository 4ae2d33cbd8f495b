"""The offline page of the OpenAPI document, in a browser without scripts and without the internet."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from werkzeug.serving import make_server

from pipeweave.api import create_app
from pipeweave.api.routes import ENDPOINTS
from pipeweave.settings import Settings


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on a free port. The page needs neither PostgreSQL nor a broker."""
    settings = Settings(
        database_url="postgresql://pipeweave@127.0.0.1:1/nobody",
        broker_url="redis://127.0.0.1:1/0",
        data_dir=str(tmp_path_factory.mktemp("page")),
    )
    server = make_server("127.0.0.1", 0, create_app(settings), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


def test_every_operation_and_schema_is_on_the_page(page: Page, url: str) -> None:
    page.goto(f"{url}/docs")
    for endpoint in ENDPOINTS:
        operation = page.locator(f"[id='{endpoint.operation_id}']")
        assert endpoint.path in operation.locator("summary").inner_text()
    assert page.locator("#schema-TriggerRequest").get_by_text("failureMode").is_visible()


def test_references_lead_to_their_schema(page: Page, url: str) -> None:
    page.goto(f"{url}/docs")
    page.locator("[id='pipelines.trigger']").get_by_role("link", name="TriggerRequest").click()
    assert page.url.endswith("#schema-TriggerRequest")
    links, marked = page.locator("a[href^='#']"), page.locator("[id]")
    names = links.evaluate_all("nodes => nodes.map(node => node.getAttribute('href').slice(1))")
    places = Counter(marked.evaluate_all("nodes => nodes.map(node => node.id)"))
    assert "schema-TriggerRequest" in names
    assert {name for name in names if places[name] != 1} == set()


def test_the_page_asks_only_its_own_server_and_breaks_no_policy(page: Page, url: str) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    answer = page.goto(f"{url}/docs")
    assert answer is not None
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert {each for each in asked if not each.startswith(url)} == set()
    assert f"{url}/static/docs.css" in asked
    assert complaints == []
    assert page.locator("h1").evaluate("node => getComputedStyle(node).margin") == "0px"


def test_a_narrow_screen_needs_no_sideways_scrolling(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 800})
    page = context.new_page()
    page.goto(f"{url}/docs")
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    context.close()
    assert overflow <= 0
