"""What the builder of the site does for our pages alone; mkdocs.yml names this file."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

from help_pages import diagrams, own_files, trusted_types

DECISIONS = "Decisions"
# Nobody asks for them: what the API does not find, it says itself, and the site has one language.
_UNUSED = ("404.html", "sitemap.xml", "sitemap.xml.gz", "assets/javascripts/lunr")
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>\.\.?/[^)#\s]*)(?:#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Say the version on each page, and list every decision, so that a new one is one new file."""
    project = tomllib.loads((Path(config.docs_dir).parent / "pyproject.toml").read_text())["project"]
    config.copyright = f"PipeWeave {project['version']}"
    folder = Path(config.docs_dir) / "decisions"
    pages = [f"decisions/{page.name}" for page in sorted(folder.glob("[0-9]*.md"))]
    _section(config.nav or [], DECISIONS).extend(pages)
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Say the path of a file that is no page, as it is not here, and make tables of diagrams."""
    docs = Path(config.docs_dir)
    return without_outside_links(diagrams.as_tables(markdown), (docs / page.file.src_uri).parent, docs)


def on_post_build(config: MkDocsConfig) -> None:
    """Make the site one that a strict policy allows, without files that nobody asks for."""
    site = Path(config.site_dir)
    for name in _UNUSED:
        path = site / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in site.rglob("*.map"):
        path.unlink()
    own_files.move_out(site)
    trusted_types.add(site)


def without_outside_links(markdown: str, folder: Path, docs: Path) -> str:
    """The text with the path in place of each link that leads out of the documents.

    Args:
        markdown: the text of a page.
        folder: the folder of the page.
        docs: the folder of all pages.
    """

    def replaced(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / found["path"]))
        if target.is_relative_to(docs):
            return found[0]
        path = f"`{target.relative_to(docs.parent).as_posix()}`"
        return path if found["text"].strip("`") in path else f"{found['text']} ({path})"

    return _LINK.sub(replaced, markdown)


def _section(nav: list[Any], title: str) -> list[Any]:
    for each in nav:
        for name, inside in each.items() if isinstance(each, dict) else ():
            if name == title and isinstance(inside, list):
                return inside
            if isinstance(inside, list) and (found := _section(inside, title)):
                return found
    return []
