"""The pages of docs/ become a site that has all of them, and asks no other host."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from support.built_help import built_help
from support.pages import ROOT

from help_pages import own_files
from help_pages.hooks import without_outside_links

DOCS = ROOT / "docs"
# Of a tag that loads something, what it loads; a link is followed by people alone.
_LOADED = re.compile(r'<(?!a\b)[a-z]+\b[^>]*?\s(?:src|href|srcset|action|data)="?([^"\s>]+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_help(tmp_path_factory.mktemp("help"))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    return {page.relative_to(site).as_posix(): page.read_text() for page in site.rglob("*.html")}


def test_every_page_of_the_documents_is_in_the_site(pages: dict[str, str]) -> None:
    names = {
        page.relative_to(DOCS) for page in DOCS.rglob("*.md") if not page.is_relative_to(DOCS / "sql/pages")
    }
    expected = {
        name.with_name("index.html" if name.stem == "README" else f"{name.stem}.html") for name in names
    }
    assert pages.keys() == {each.as_posix() for each in expected}


def test_every_page_stands_in_the_navigation() -> None:
    """A page that is left out is a warning, and warnings end the build; a decision is found by itself."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = set(re.findall(r"[\w/-]+\.md", navigation))
    present = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    decisions = {name for name in present if re.match(r"decisions/\d", name)}
    assert listed == {name for name in present - decisions if not name.startswith("sql/pages/")}


def test_every_page_says_of_which_version_it_is(pages: dict[str, str]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert [name for name, html in pages.items() if f"PipeWeave {version}" not in html] == []


def test_no_page_loads_anything_from_another_host(pages: dict[str, str]) -> None:
    loaded = {(name, address) for name, html in pages.items() for address in _LOADED.findall(html)}
    assert loaded
    assert {each for each in loaded if re.match(r"(?:[a-z]+:)?//", each[1])} == set()


def test_no_page_has_a_script_or_a_style_inside(pages: dict[str, str]) -> None:
    for name, html in pages.items():
        inside = re.findall(r"<(script|style)\b([^>]*)>([^<])", html)
        assert [tag for tag, attributes, _ in inside if "application/json" not in attributes] == [], name
        assert not re.search(r"<[^>]*\s(?:style|on\w+)=", html), name


def test_what_a_page_loads_is_there(site: Path, pages: dict[str, str]) -> None:
    missing = {
        (name, address)
        for name, html in pages.items()
        for address in _LOADED.findall(html)
        if not (site / name).parent.joinpath(address.partition("#")[0]).exists()
    }
    assert missing == set()


def test_the_policy_of_trusted_types_comes_before_every_other_script(pages: dict[str, str]) -> None:
    for name, html in pages.items():
        first = re.search(r'<script src="([^"]+)"', html)
        assert first and first[1].endswith("own/trusted-types.js"), name


def test_a_link_out_of_the_documents_becomes_a_path() -> None:
    def shown(text: str) -> str:
        return without_outside_links(text, DOCS / "decisions", DOCS)

    assert shown("[a relay](../../examples/outbox_relay.py)") == "a relay (`examples/outbox_relay.py`)"
    assert shown("[`states.py`](../../orchestrator/domain/states.py)") == "`orchestrator/domain/states.py`"
    assert shown("[waits](../waits.md#signals)") == "[waits](../waits.md#signals)"


def test_scripts_of_pages_move_into_files_and_data_stay(tmp_path: Path) -> None:
    page = tmp_path / "in/page.html"
    page.parent.mkdir()
    data = '<script id="__config" type="application/json">{}</script>'
    page.write_text(f"<script>let a = 1</script><style>p { {} }</style>{data}<script src='b.js'></script>")
    own_files.move_out(tmp_path)
    script, style = sorted(
        (tmp_path / own_files.FOLDER).iterdir(), key=lambda each: each.suffix, reverse=True
    )
    assert script.read_text() == "let a = 1"
    assert page.read_text() == (
        f'<script src="../assets/own/{script.name}"></script>'
        f'<link rel="stylesheet" href="../assets/own/{style.name}">{data}<script src=\'b.js\'></script>'
    )
