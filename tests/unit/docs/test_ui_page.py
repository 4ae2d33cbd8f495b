"""The pictures of docs/ui.md are made by tests (tests/ui/looks), and none lies about."""

from __future__ import annotations

import re

from support.pages import ROOT, text_of
from support.studio import PICTURES


def test_every_picture_of_the_page_is_made_by_a_test() -> None:
    named = re.findall(r"!\[([^\]]*)\]\(pictures/([^)]+)\)", text_of("docs/ui.md"))
    assert named
    assert {name for _, name in named} <= PICTURES
    assert all(words for words, _ in named), "each says what it shows"


def test_every_picture_that_tests_make_is_there_and_no_other() -> None:
    assert {path.name for path in (ROOT / "docs/pictures").iterdir()} == PICTURES
