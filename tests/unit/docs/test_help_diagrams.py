"""The pages of help show each diagram as a table with all of its arrows."""

from __future__ import annotations

import re

import pytest
from support.pages import ROOT

from help_pages.diagrams import as_tables

DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWN = [text for page in sorted((ROOT / "docs").rglob("*.md")) for text in DIAGRAM.findall(page.read_text())]


def table(*lines: str) -> list[str]:
    return as_tables("\n".join(["```mermaid", *lines, "```"])).splitlines()[2:]


@pytest.mark.parametrize("diagram", DRAWN, ids=lambda text: text.split("\n", 1)[0])
def test_no_arrow_of_a_page_is_left_out(diagram: str) -> None:
    arrows = len(re.findall(r"-->|->>|-\.->", diagram))
    rows = [row.split("|")[2:4] for row in table(*diagram.splitlines())]
    words = any(what.strip() for _, what in rows)
    # A comma stands between the places to which one leads, and within the words of a place behind a bracket.
    assert (len(rows) if words else sum(len(re.split(r", (?![^(]*\))", to)) for to, _ in rows)) == arrows


def test_arrows_with_words_have_a_row_each() -> None:
    lines = ("flowchart LR", '    a(["one<br>two, three"]) -->|asks| b[(four)]', "    b -.-> a")
    assert table(*lines) == ["| one (two, three) | four | asks |", "| four | one (two, three) |  |"]
    lines = ("sequenceDiagram", "    participant a as one", "    a->>b: says: no")
    assert table(*lines) == ["| one | b | says: no |"]


def test_moves_without_words_stand_together() -> None:
    lines = ("stateDiagram-v2", "    direction LR", "    [*] --> x", "    x --> y", "    x --> [*]")
    assert table(*lines) == ["| the beginning | x |", "| x | y, the end |"]


def test_a_diagram_that_is_not_understood_ends_the_build() -> None:
    with pytest.raises(ValueError, match="pie"):
        table("pie", '    "a" : 3')
