"""What scripts compute by themselves is what Python computes: the same vectors through both."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from benchmarks import graph_page
from pipeweave.api.ui import words
from pipeweave.orchestrator.domain import STATUS_LETTERS
from pipeweave.orchestrator.graph import read_document
from pipeweave.orchestrator.timeline import matrix


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with graph_page.served() as url:
        page = browser.new_page()
        page.goto(url)
        yield page
        page.close()


def test_durations_read_the_same(page: Page) -> None:
    vectors = [0.4, 1, 12.4, 999.4, 1_000, 4_149, 59_900, 60_000, 61_000, 3_599_000, 3_600_000, 90_061_000]
    vectors += [random.Random(7).uniform(1, 10 ** (each % 9)) for each in range(1, 200)]
    shown = page.evaluate(
        """async (vectors) => {
            const { duration } = await import("./js/time.js");
            return vectors.map(duration);
        }""",
        vectors,
    )
    other = [(ms, words.duration(ms), text) for ms, text in zip(vectors, shown, strict=True)]
    assert [each for each in other if each[1] != each[2]] == []


def test_the_short_texts_of_a_matrix_are_read_as_they_were_written(page: Page) -> None:
    chance = random.Random(11)
    letters = "".join(chance.choice("ccccccft") * chance.randint(1, 12) for _ in range(300))
    levels = matrix.level_letters()
    durations = "".join(chance.choice(levels + matrix.NONE) for _ in letters)
    found = page.evaluate(
        """async ({ runs, durations, total }) => {
            const { levels, statuses, STATUS } = await import("./js/matrix/decode.js");
            const letters = String.fromCharCode(...statuses(runs, total));
            return { letters, levels: [...levels(durations)], STATUS };
        }""",
        {"runs": matrix.run_lengths(letters), "durations": durations, "total": len(letters)},
    )
    assert found["letters"] == letters
    assert found["levels"] == [255 if each == matrix.NONE else levels.index(each) for each in durations]
    assert found["STATUS"] == {letter: status for status, letter in STATUS_LETTERS.items()}


@pytest.mark.parametrize("is_down", [False, True])
def test_links_leave_and_enter_boxes_where_the_drawing_of_the_server_has_them(
    page: Page, is_down: bool
) -> None:
    graph = graph_page.graph_of(60, is_down=is_down)
    found = page.evaluate(
        """async (graph) => {
            const { Scene } = await import("./js/graph/scene.js");
            return new Scene(graph).links.map((each) => [...each]);
        }""",
        graph,
    )
    shape, layout = read_document(graph)
    assert (len(found), layout.is_down) == (len(shape.links), is_down)
    for link, line in zip(shape.links, found, strict=True):
        (x, y), (width, height) = layout.places[link.source], layout.sizes[link.source]
        left, top = layout.places[link.target]
        wide, high = layout.sizes[link.target]
        if is_down:
            assert line[:2] + line[-2:] == [x + width / 2, y + height, left + wide / 2, top]
        else:
            assert line[:2] + line[-2:] == [x + width, y + height / 2, left, top + high / 2]
