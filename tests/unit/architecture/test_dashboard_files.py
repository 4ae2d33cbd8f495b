"""The dashboard's scripts stay small, and nothing in its files gets around the pages' policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import ROOT

UI = ROOT / "api/ui"
SCRIPTS = sorted((UI / "static/js").rglob("*.js"))
TEMPLATES = sorted((UI / "templates").rglob("*.*"))
# In all: what lists, filters, graphs and timelines of the second look took above 4,000.
MOST_LINES, MOST_LINES_IN_ALL = 250, 4_400
# What makes markup of a text; only one file may.
_MARKUP = re.compile(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function)")


def _lines(paths: list[Path], pattern: str | re.Pattern[str]) -> Iterator[str]:
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(pattern, line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES, "what passes this belongs on the server"


def test_all_scripts_together_stay_small() -> None:
    assert sum(len(path.read_text().splitlines()) for path in SCRIPTS) <= MOST_LINES_IN_ALL


def test_only_one_script_makes_markup_of_a_text() -> None:
    others = [path for path in SCRIPTS if path.name != "patch.js"]
    assert list(_lines(others, _MARKUP)) == []


def test_templates_have_no_inline_style_and_no_inline_script() -> None:
    assert (
        list(_lines(TEMPLATES, r"""\sstyle\s*=|\son\w+\s*=\s*["']|<script(?![^>]*\bsrc=)|javascript:"""))
        == []
    )


def test_tables_that_scroll_come_from_one_macro() -> None:
    """`parts.table`; those of another shape have a frame, or several bodies."""
    others = {"macros.html", "grid.html", "week.html", "events.html", "stored_object.html"}
    lists = [path for path in TEMPLATES if path.name not in others]
    assert list(_lines(lists, r'class="table-scroll')) == []


def test_templates_never_switch_escaping_off() -> None:
    allowed = r"""\{\{ ' inputmode="decimal"' \| safe"""
    found = [
        line for line in _lines(TEMPLATES, r"\|\s*safe|autoescape false") if not re.search(allowed, line)
    ]
    assert found == []


def test_no_file_names_another_host() -> None:
    files = [path for path in (UI / "static").rglob("*") if path.is_file()]
    names = _lines(files, r"https?://(?!www\.w3\.org/2000/svg)")
    assert list(names) == []
