"""Each promise of docs/security.md names tests that exist."""

from __future__ import annotations

import ast
import re

from support.pages import ROOT

PAGE = (ROOT / "docs/security.md").read_text()
CITED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


def test_each_promise_has_a_test() -> None:
    promises = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [
        line for line in promises.splitlines() if line.startswith("| ") and not line.startswith("| promise")
    ]
    assert len(rows) > 20
    assert not [row for row in rows if not re.search(r"`[\w/]+\.py(::\w+)?` \||`[\w/]+\.py(::\w+)?`,", row)]


def test_each_test_that_the_page_names_is_there() -> None:
    assert not [(path, name) for path, name in CITED if not _is_there(path, name)]


def _is_there(path: str, name: str) -> bool:
    file = ROOT / path
    if not file.is_file():
        return False
    functions = {
        node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)
    }
    return not name or name in functions
