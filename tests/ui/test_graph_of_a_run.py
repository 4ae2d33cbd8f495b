"""The graph on a page of the dashboard: under its policy, live, and without scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from jinja2 import ChoiceLoader, DictLoader
from playwright.sync_api import Browser, expect
from support.browser import PHONE, Visit, visiting
from support.run_driver import PERMANENT, RunDriver
from support.servers import wait_until
from werkzeug.serving import make_server

from pipeweave import api, ids
from pipeweave.api.ui import dashboard, templating
from pipeweave.api.ui.screens import Screen, ScreenPage
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.security import READ
from pipeweave.settings import Settings

TEMPLATE = """{% extends layout %}
{% block main %}<h1>{{ run.pipelineId }}</h1>{% include "parts/graph.html" %}{% endblock %}"""
WIDE = {
    "list": [],
    **{f"count-{at}": ["list"] for at in range(30)},
    "report": [f"count-{at}" for at in range(30)],
}
TASKS = {"list": "noop", **{f"count-{at}": "limited" for at in range(30)}, "report": "noop"}


@pytest.fixture(scope="module")
def url(database_url: str, broker_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An API in this process, with a screen that shows a run's graph and nothing else."""
    settings = Settings(
        database_url=database_url,
        broker_url=broker_url,
        data_dir=str(tmp_path_factory.mktemp("graph")),
        secret_key="5e" * 32,
    )
    with pytest.MonkeyPatch.context() as patched:
        row = Screen("/drawn/<id>", lambda view, id: _read(view, id), "drawn.html", "runs")
        patched.setattr(api, "SCREENS", (*api.SCREENS, row))
        own = DictLoader({"drawn.html": TEMPLATE})
        shared = templating.environment()
        loader = ChoiceLoader([own] if shared.loader is None else [shared.loader, own])
        with_own = shared.overlay(loader=loader)
        patched.setattr(dashboard, "environment", lambda: with_own)
        server = make_server("127.0.0.1", 0, api.create_app(settings), threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()


def _read(view: View, id: str) -> ScreenPage:
    return ScreenPage("Drawn", {"run": view.ask("runs.get_run", {"taskRuns": "0"}, id=id)}, run=id)


@pytest.fixture
def see(
    browser: Browser, url: str, driver: RunDriver, make_token: Callable[..., str]
) -> Iterator[Callable[..., Visit]]:
    with ExitStack() as stack:

        def see(**options: object) -> Visit:
            visit = stack.enter_context(visiting(browser, url, driver.tenant, make_token(READ), **options))
            # This server has no loop for streams: pages ask again and again instead.
            visit.expected.append("503")
            return visit

        yield see


def begin(driver: RunDriver) -> str:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]})
    return ids.show(ids.RUN, run_id)


def until(visit: Visit, expression: str) -> None:
    """Wait until an expression is true in the page; its policy lets no text become a function there."""
    wait_until(lambda: visit.page.evaluate(f"Boolean({expression})"), what=expression)


def letters(visit: Visit) -> str:
    return visit.page.evaluate("document.querySelector('pw-graph').states?.letters.slice(1).join('') ?? ''")


def test_a_graph_is_drawn_and_follows_its_run(see: Callable[..., Visit], driver: RunDriver) -> None:
    visit = see()
    shown = begin(driver)
    page = visit.open(f"/drawn/{shown}?step=b")
    until(visit, "document.querySelector('pw-graph').states?.isKnown")
    assert letters(visit) == "qppp"
    assert page.evaluate("document.querySelector('pw-graph').marked.ordinal") == 2
    driver.finish(ids.read(ids.RUN, shown), "a", "b")
    until(visit, "document.querySelector('pw-graph').states.letters.slice(1).join('') === 'ccqp'")
    driver.finish(ids.read(ids.RUN, shown), "c", failure=PERMANENT)
    until(visit, "document.querySelector('pw-graph').states.runStatus === 'failed'")
    page.get_by_role("application").press("f")
    page.wait_for_url("**step=c")
    expect(page.locator(".graph-static")).to_be_hidden()
    visit.axe()


def test_a_class_of_the_pattern_opens_in_the_address(see: Callable[..., Visit], driver: RunDriver) -> None:
    shown = ids.show(ids.RUN, driver.begin(WIDE, tasks=TASKS))
    visit = see()
    page = visit.open(f"/drawn/{shown}")
    stage = page.get_by_role("application")
    until(visit, "document.querySelector('pw-graph').scene")
    stage.press("v")
    page.wait_for_url("**view=pattern")
    until(visit, "document.querySelector('pw-graph').scene.boxes === 3")
    for step in ("list", "count-0"):
        stage.press("ArrowRight")
        # The page has looked at the address, and does not go back to the step before.
        until(visit, f"document.querySelector('pw-graph').getAttribute('selected') === '{step}'")
    stage.press("Enter")
    until(visit, "document.querySelector('pw-graph').scene.blocks.size === 1")
    page.reload()
    until(visit, "document.querySelector('pw-graph').scene?.blocks.size === 1")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a drawing").click()
    assert Path(download.value.path()).read_text().count("count-") == 30
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a picture").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_graph_turns_and_stays_so_in_its_address(see: Callable[..., Visit], driver: RunDriver) -> None:
    shown = begin(driver)
    visit = see()
    page = visit.open(f"/drawn/{shown}")
    stage = page.get_by_role("application")
    until(visit, "document.querySelector('pw-graph').scene")
    stage.press("o")
    page.wait_for_url("**direction=down**")
    until(visit, "document.querySelector('pw-graph').scene.isDown")
    places = "(({x, y}) => [[...x], [...y]])(document.querySelector('pw-graph').scene)"
    [[_, b, c, d], [_, below, beside, last]] = page.evaluate(places)
    assert b != c and below == beside < last and min(b, c) < d < max(b, c)
    for key, step in (("ArrowDown", "a"), ("ArrowDown", "b"), ("ArrowRight", "c"), ("ArrowUp", "a")):
        stage.press(key)
        # The page has looked at the address, and does not go back to the step before.
        until(visit, f"document.querySelector('pw-graph').getAttribute('selected') === '{step}'")
    page.reload()
    until(visit, "document.querySelector('pw-graph').scene?.isDown")
    page.get_by_role("button", name="From left to right").click()
    page.wait_for_url(lambda url: "direction" not in url)
    until(visit, "!document.querySelector('pw-graph').scene.isDown")


def test_on_a_phone_a_graph_breaks_no_rule_and_needs_no_sideways_scrolling(
    see: Callable[..., Visit], driver: RunDriver
) -> None:
    visit = see(viewport=PHONE, has_touch=True)
    page = visit.open(f"/drawn/{begin(driver)}")
    until(visit, "document.querySelector('pw-graph').states?.isKnown")
    visit.axe_in_both_themes()
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_without_scripts_there_is_the_drawing(see: Callable[..., Visit], driver: RunDriver) -> None:
    visit = see(java_script_enabled=False)
    page = visit.open(f"/drawn/{begin(driver)}")
    drawing = page.locator(".graph-static svg")
    assert drawing.is_visible()
    drawing.get_by_role("link", name="b").last.click()
    page.wait_for_url("**step=b")
