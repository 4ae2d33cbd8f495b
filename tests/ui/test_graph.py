"""The element that draws graphs, on a page of its own: what it costs, and what one does with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks import graph_page
from benchmarks.graph_page import graph_of, measure_graph, states_of
from pipeweave.orchestrator.domain import STATUS_LETTERS

JS = Path(graph_page.STATIC) / "js" / "graph"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with graph_page.served() as url:
        yield url


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(url)
    page.evaluate("customElements.whenDefined('pw-graph').then(() => true)")
    page.evaluate("""() => {
        window.told = [];
        for (const name of ["pw-select", "pw-open", "pw-view"]) {
            document.addEventListener(name, (event) => {
                window.told.push([name, event.detail]);
                event.preventDefault();
            });
        }
    }""")
    yield page
    context.close()
    assert complaints == []


def show(page: Page, steps: int, **states: Any) -> None:
    given = {"graph": graph_of(steps), "states": states_of(list(range(1, steps + 1))) | states}
    page.evaluate(
        """async (given) => {
            const { graph, states } = JSON.parse(given);
            const element = document.querySelector("pw-graph");
            element.show(graph);
            element.apply(states);
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            while (!element.surface.painted.zoom) await frame();
        }""",
        json.dumps(given),
    )


def told(page: Page) -> list[Any]:
    return page.evaluate("window.told.splice(0)")


# --- what it costs ----------------------------------------------------------------------------------------


def test_a_frame_costs_the_same_for_ten_thousand_steps_as_for_five_hundred(
    browser: Browser, url: str
) -> None:
    figures = {}
    for steps in (500, 10_000):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(url)
        figures[steps] = measure_graph(page, steps)
        page.close()
    few, many = figures[500], figures[10_000]
    # To move a picture is some microseconds; to draw the larger graph takes many times as long.
    assert many.pan < many.redraw / 20
    assert many.pan < 10 * max(few.pan, 0.02)
    assert (few.full_redraws, many.full_redraws) == (0, 0), "a change draws only what has changed"
    assert many.heap_mb < 160


def test_what_stays_the_same_is_made_once_and_not_with_every_drawing(page: Page) -> None:
    show(page, 5_000)
    far, first, again = page.evaluate(
        """() => {
            const element = document.querySelector("pw-graph"), { Path2D } = window;
            const pen = CanvasRenderingContext2D.prototype, { measureText } = pen;
            let paths = 0, measured = 0;
            window.Path2D = class extends Path2D { constructor() { super(); paths += 1; } };
            pen.measureText = function (text) { measured += 1; return measureText.call(this, text); };
            const drawn = () => {
                paths = measured = 0;
                element.surface.redraw();
                return { paths, measured };
            };
            const far = drawn();
            element.camera.zoomAt(0.5 / element.camera.zoom);
            return [far, drawn(), drawn()];
        }"""
    )
    assert far == {"paths": 0, "measured": 0}, "links of the whole graph are laid out when it is first drawn"
    assert first["measured"] > 0
    assert again["measured"] == 0, "names are cut once"


def test_the_letters_of_statuses_are_those_of_the_api() -> None:
    source = (JS / "looks.js").read_text()
    words = dict(re.findall(r"\b(\w): \"(\w+)\"", source.partition("WORDS")[2].partition("});")[0]))
    assert words.pop("P") == "partial"  # the page's own: a map that completed with failed items
    assert {word: letter for letter, word in words.items()} == STATUS_LETTERS


# --- what one does with it --------------------------------------------------------------------------------


def test_arrow_keys_go_along_edges_and_say_where_one_is(page: Page) -> None:
    show(page, 60)
    stage = page.get_by_role("application")
    stage.focus()
    stage.press("ArrowRight")
    assert told(page) == [["pw-select", {"step": "step-0"}]]
    stage.press("ArrowRight")
    [[_, chosen]] = told(page)
    graph = graph_of(60)
    first, second = (graph["steps"]["ids"].index(each) for each in ("step-0", chosen["step"]))
    edges = set(zip(graph["links"]["sources"], graph["links"]["targets"], strict=True))
    assert (first, second) in edges
    expect(page.locator("pw-graph [aria-live]")).to_have_text(
        re.compile(rf"^{chosen['step']}, .*before, .*after$")
    )
    stage.press("Escape")
    assert told(page) == [["pw-select", {"step": None}]]


def test_failures_are_found_one_after_the_other(page: Page) -> None:
    show(page, 60, statuses="c" * 10 + "f" + "c" * 20 + "t" + "c" * 28)
    stage = page.get_by_role("application")
    for key in ("f", "f", "f", "Shift+F"):
        stage.press(key)
    assert [detail["step"] for _, detail in told(page)] == ["step-10", "step-31", "step-10", "step-31"]


def test_a_step_is_found_by_name_task_or_status(page: Page) -> None:
    show(page, 60, statuses="c" * 59 + "w")
    field = page.get_by_role("searchbox")
    for text in ("step-42", "TASK-19", "waiting", "nothing"):
        field.fill(text)
        field.press("Enter")
    assert [detail["step"] for _, detail in told(page)] == ["step-42", "step-57", "step-59"]
    assert field.get_attribute("aria-invalid") == "true"


def test_a_click_selects_what_lies_there(page: Page) -> None:
    show(page, 20)
    at = page.evaluate("""() => {
        const { scene, camera } = document.querySelector("pw-graph");
        return [(scene.x[7] + 20 - camera.x) * camera.zoom, (scene.y[7] + 20 - camera.y) * camera.zoom];
    }""")
    page.get_by_role("application").click(position={"x": at[0], "y": at[1]})
    assert told(page) == [["pw-select", {"step": "step-7"}]]


def test_the_wheel_zooms_and_dragging_pans(page: Page) -> None:
    show(page, 200)
    camera = "(({x, y, zoom}) => [x, y, zoom])(document.querySelector('pw-graph').camera)"
    before = page.evaluate(camera)
    stage = page.get_by_role("application").bounding_box()
    assert stage is not None
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    zoomed = page.evaluate(camera)
    assert zoomed[2] > before[2]
    page.mouse.down()
    page.mouse.move(x - 100, y - 50, steps=3)
    page.mouse.up()
    panned = page.evaluate(camera)
    assert panned[0] > zoomed[0] and panned[1] > zoomed[1]
    assert told(page) == [], "a drag selects nothing"
    page.get_by_role("button", name="Show all (e)").click()
    assert page.evaluate(camera) == before


def test_the_critical_path_is_lit_and_colours_may_tell_something_else(page: Page) -> None:
    show(page, 60)
    page.get_by_role("application").press("p")
    path = page.evaluate("[...document.querySelector('pw-graph').marked.path]")
    graph = graph_of(60)
    edges = set(zip(graph["links"]["sources"], graph["links"]["targets"], strict=True))
    assert path[0] == 59, "the last that finished"
    assert all((before, after) in edges for after, before in pairwise(path))
    page.get_by_label("Colour by").select_option("duration")
    assert told(page) == [["pw-view", {"colour": "duration"}]]


def test_only_what_has_changed_is_drawn_again(page: Page) -> None:
    show(page, 500)
    counts = page.evaluate(
        """(change) => {
            const element = document.querySelector("pw-graph");
            const before = element.surface.redraws;
            element.apply(change);
            return [element.surface.redraws - before, element.states.letter(3)];
        }""",
        {**states_of([3]), "statuses": "f"},
    )
    assert counts == [0, "f"]
