"""Every example on the page about expressions gives what it says."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
import yaml
from support.pages import ROOT, blocks, section, text_of

from pipeweave.spec import parse_spec
from pipeweave.spec.expressions import ROOTS, bounds, parse_condition, parse_expression
from pipeweave.spec.expressions.functions import FUNCTIONS

PAGE = ROOT / "docs/expressions.md"
TEXT = PAGE.read_text()
(SCOPE,) = (json.loads(each) for each in blocks(PAGE, "json"))
EXAMPLES = re.findall(r"^\|(?:[^|]*\|)? ?`([^|`]+)` \| `([^|`]+)` \|$", TEXT, re.MULTILINE)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) > 35


@pytest.mark.parametrize(("expression", "value"), EXAMPLES)
def test_an_example_gives_its_value(expression: str, value: str) -> None:
    result = parse_expression(expression).evaluate(SCOPE, now=datetime.now(UTC))
    assert json.dumps(result) == value


def test_the_three_ways_to_write_a_condition_are_one() -> None:
    line = next(each for each in TEXT.split("\n\n") if "These three are the same" in each)
    conditions = re.findall(r"`([^`]*error\.step[^`]*)`", line)
    assert len(conditions) == 3
    for step, expected in (("charge_card", True), ("ship", False)):
        scope = {"error": {"step": step}}
        assert [parse_condition(each).is_true(scope) for each in conditions] == [expected] * 3


def test_the_document_on_the_page_is_one() -> None:
    (document,) = blocks(PAGE, "yaml")
    spec = parse_spec({"id": "page", **yaml.safe_load(document)})
    assert spec.steps[2].needs == ("count",)


def test_every_root_and_every_function_is_on_the_page() -> None:
    roots = section("docs/expressions.md", "Values and paths")
    functions = section("docs/expressions.md", "Functions")
    assert not [root for root in ROOTS if f"`{root}" not in roots]
    assert not [name for name in FUNCTIONS if not re.search(rf"`{name}[(`]", functions)]


def test_the_bounds_on_the_page_are_the_bounds() -> None:
    shown = re.findall(r"^\| .+ \| ([\d,]+) \|$", section("docs/expressions.md", "Bounds"), re.MULTILINE)
    assert [int(each.replace(",", "")) for each in shown] == [
        bounds.MAX_CHARS,
        1_000,
        bounds.MAX_PARTS,
        bounds.MAX_DEPTH,
        bounds.MAX_WORK,
    ]


def test_other_pages_lead_here() -> None:
    assert "](expressions.md)" in text_of("docs/tasks-and-pipelines.md")
