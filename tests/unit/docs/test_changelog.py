"""Each release in the changelog begins with what a reader decides by."""

from __future__ import annotations

import re

import pytest
from support.pages import text_of

HEAD = ["Highlights", "Breaking", "Upgrade"]
ENTRIES = ["Added", "Security", "Fixed"]
MOST_HIGHLIGHTS = 8


def releases(text: str) -> dict[str, dict[str, str]]:
    """Name of each release -> its parts, in their order."""
    found = {}
    for release in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, content = release.partition("\n")
        before, *parts = re.split(r"^### ", content, flags=re.MULTILINE)
        assert not before.strip(), f"{title}: a text outside of its parts"
        found[title] = {name: part.strip() for name, _, part in (each.partition("\n") for each in parts)}
    return found


RELEASES = releases(text_of("CHANGELOG.md"))
TEMPLATE = releases(text_of("CONTRIBUTING.md").partition("```markdown\n")[2].partition("\n```")[0])


def test_what_is_not_released_yet_comes_first() -> None:
    first, *others = RELEASES
    assert first == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", each) for each in others)


@pytest.mark.parametrize("parts", [*RELEASES.values(), *TEMPLATE.values()])
def test_a_release_begins_with_highlights_what_breaks_and_how_to_upgrade(parts: dict[str, str]) -> None:
    assert list(parts)[:3] == HEAD
    assert list(parts)[3:] == [each for each in ENTRIES if each in parts]
    assert all(parts[name].startswith("- ") for name in HEAD)
    assert len(re.findall(r"^- ", parts["Highlights"], re.MULTILINE)) <= MOST_HIGHLIGHTS
