"""Only the rooms that define and execute kinds of steps ask which kind it is.

The others ask what is true of it: `step.has_items`, `row.kind in CALLED`, `kind_sql.IS_STEP`. So a new kind
is described in `pipeweave/spec/kinds.py`, and none of them changes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.source_tree import ROOT, layer_of, module_of, offenders, tree_of

from pipeweave.spec import KINDS

# The engine will have a file for each kind; `spec` defines them.
MAY_ASK = ("pipeweave.spec.", "pipeweave.orchestrator.engine.")

_SQL = re.compile(rf"\bkind\s*(?:=|<>|!=|(?:NOT\s+)?IN)\s*\(?\s*'(?:{'|'.join(KINDS)})'", re.IGNORECASE)
_IN_A_TEMPLATE = re.compile(rf"""\bkind\s*[!=]==?\s*["'](?:{"|".join(KINDS)})["']""")


def test_only_the_spec_and_the_engine_ask_of_which_kind_a_step_or_task_run_is() -> None:
    def asks(path: Path) -> Iterator[str]:
        if layer_of(path) != "migrations" and not module_of(path).startswith(MAY_ASK):
            yield from questions(tree_of(path))

    assert not offenders(asks), "ask what is true of the kind: pipeweave/spec/kinds.py, StepSpec, kind_sql.py"


def test_no_page_of_the_dashboard_asks_of_which_kind_a_task_run_is() -> None:
    pages = [each for suffix in ("html", "js") for each in (ROOT / "api/ui").rglob(f"*.{suffix}")]
    asking = [str(each.relative_to(ROOT)) for each in pages if _IN_A_TEMPLATE.search(each.read_text())]
    assert pages
    assert not asking, "write `kind in WITH_ITEMS`"


@pytest.mark.parametrize(
    "code",
    [
        'row.kind == "map"',
        'each["kind"] != "item"',
        'each.get("kind") in ("task", "map")',
        '"map" != kind',
        "step.map is None",
        "over = step.map.over",
        "found = [each for each in steps if each.map]",
        'match row.kind:\n    case "item" | "map":\n        pass',
        '''sql = "SELECT 1 FROM task_runs AS t WHERE t.kind <> 'map'"''',
        '''sql = f"{columns} WHERE t.kind IN ('task', 'item')"''',
    ],
)
def test_each_way_to_ask_is_seen(code: str) -> None:
    assert list(questions(ast.parse(code))) != []


@pytest.mark.parametrize(
    "code",
    [
        "row.kind in CALLED",
        'trigger.kind == "webhook"',
        "step.has_items",
        "rows = measure.map(words)",
        '''sql = f"WHERE {kind_sql.IS_STEP} AND s.kind = 'http'"''',
    ],
)
def test_what_is_true_of_a_kind_and_the_kinds_of_other_things_may_be_asked(code: str) -> None:
    assert list(questions(ast.parse(code))) == []


def questions(tree: ast.AST) -> Iterator[str]:
    """The lines that ask of which kind something is."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                is_question = any(map(_is_kind, [left, *others])) and any(map(_names_kind, [left, *others]))
            case ast.Match(subject=subject, cases=cases):
                is_question = _is_kind(subject) and any(_names_kind(each.pattern) for each in cases)
            case ast.Attribute(attr="map"):
                is_question = id(node) not in called
            case ast.Constant(value=str(text)):
                is_question = _SQL.search(text) is not None
            case _:
                continue
        if is_question:
            yield f"line {node.lineno}"


def _is_kind(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="kind") | ast.Attribute(attr="kind"):
            return True
        case ast.Subscript(slice=ast.Constant(value="kind")):
            return True
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="kind"), *_]):
            return True
        case _:
            return False


def _names_kind(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Constant) and each.value in KINDS for each in ast.walk(node))
