"""Moves the scripts and styles inside of pages into files, which the policy of the site allows."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

FOLDER = "assets/own"
# What a script of this type holds is data and does not run.
_DATA = 'type="application/json"'
_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<content>.+?)</script>", re.DOTALL)
_STYLE = re.compile(r"<style[^>]*>(?P<content>.+?)</style>", re.DOTALL)


def move_out(site: Path) -> None:
    """Replace each script and style inside of a page by a file of the site with the same content.

    Args:
        site: the folder of the built site.
    """
    for page in sorted(site.rglob("*.html")):
        page.write_text(_without_inline(page.read_text(), page, site))


def _without_inline(html: str, page: Path, site: Path) -> str:
    def script(found: re.Match[str]) -> str:
        if _DATA in found["attributes"]:
            return found[0]
        return f'<script src="{_kept(found["content"], ".js", page, site)}"></script>'

    def style(found: re.Match[str]) -> str:
        return f'<link rel="stylesheet" href="{_kept(found["content"], ".css", page, site)}">'

    return _STYLE.sub(style, _SCRIPT.sub(script, html))


def _kept(content: str, suffix: str, page: Path, site: Path) -> str:
    """The address, relative to the page, of the file with this content."""
    file = site / FOLDER / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}{suffix}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return Path(os.path.relpath(file, page.parent)).as_posix()
