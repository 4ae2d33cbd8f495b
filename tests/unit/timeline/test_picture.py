"""The timeline as a picture: valid XML, texts stay texts, and colour is only ever status."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from pipeweave.orchestrator.timeline import svg
from pipeweave.orchestrator.timeline.spans import PhaseKind
from pipeweave.orchestrator.timeline.words import WORDS, took

HOSTILE = '<script>alert("1")</script>&'


def a_bar(kind: PhaseKind, begin: float, end: float) -> dict[str, Any]:
    return {"kind": kind.value, "fromMs": begin, "toMs": end, "attempt": 1, "errorCode": None}


def a_step(id: str, *bars: dict[str, Any], **more: Any) -> dict[str, Any]:
    usual = {"status": "completed", "isCritical": False, "lane": None, "mapCount": None}
    return {"stepId": id, "bars": list(bars), **usual, **more}


def drawn(*steps: dict[str, Any], total: float = 100.0, **more: Any) -> ElementTree.Element:
    return ElementTree.fromstring(svg({"totalMs": total, "steps": list(steps)}, title=HOSTILE, **more))


def tags(picture: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return list(picture.iter(f"{{http://www.w3.org/2000/svg}}{name}"))


def test_every_kind_of_bar_is_drawn_inside_the_picture() -> None:
    bars = [a_bar(kind, 5.0 * place, 5.0 * place + 5) for place, kind in enumerate(PhaseKind)]
    picture = drawn(a_step("a", *bars, isCritical=True), width=800)
    for rect in tags(picture, "rect"):
        if rect.get("x"):
            assert 0 <= float(rect.get("x") or 0) <= 800
            assert float(rect.get("x") or 0) + float(rect.get("width") or 0) <= 800.5
    words = {text.text for text in tags(picture, "text")}
    assert set(WORDS.values()) <= words


def test_a_map_is_an_area_with_ticks_for_its_failures() -> None:
    lane = {"fromMs": 10.0, "toMs": 90.0, "running": [1.0, 4.0, 2.0, 0.0], "failed": [0, 2, 0, 1]}
    picture = drawn(a_step("m", a_bar(PhaseKind.ITEMS, 10, 90), lane=lane, mapCount=7))
    areas = [path for path in tags(picture, "path") if path.get("fill-opacity")]
    assert len(areas) == 1
    assert len([rect for rect in tags(picture, "rect") if rect.get("fill") == "#ab2912"]) == 2


def test_texts_of_users_stay_texts() -> None:
    picture = drawn(a_step(HOSTILE, a_bar(PhaseKind.WORK, 0, 1)))
    assert not tags(picture, "script")
    assert tags(picture, "title")[0].text == HOSTILE


def test_in_a_page_only_classes_give_colours() -> None:
    text = svg(
        {"totalMs": 10.0, "steps": [a_step("a", a_bar(PhaseKind.WORK, 0, 10))]}, title="t", is_page=True
    )
    assert 'class="f-completed"' in text
    assert "style=" not in text
    assert set(re.findall(r"#[0-9a-f]{3,6}\b", text)) == {"#fff"}


def test_runs_of_any_length_have_a_picture_and_few_lines() -> None:
    for total in (0.0, 0.01, 3.0, 950.0, 61_000.0, 86_400_000.0, 9e10):
        picture = drawn(a_step("a", a_bar(PhaseKind.WORK, 0, total)), total=total)
        assert len([path for path in tags(picture, "path") if path.get("stroke")]) <= 14


def test_durations_have_a_fitting_unit() -> None:
    written = [took(each) for each in (0.4, 950, 41_200, 61_000, 7_500_000)]
    assert written == ["0.4 ms", "950 ms", "41.2 s", "1 min 1 s", "2 h 5 min"]
