"""What the documents share: their pages, sections and code blocks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("docs/**/*.md")})


def text_of(name: str) -> str:
    """The text of a file of the repository."""
    return (ROOT / name).read_text()


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def section(page: str, heading: str) -> str:
    """The text under a heading up to the next one."""
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading!r}"
    return found[1]
