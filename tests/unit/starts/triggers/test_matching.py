"""Whether a filter fits, and what a template becomes."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.starts.triggers.matching import (
    MAX_CHOICES,
    MAX_PATHS,
    filter_mistakes,
    fits,
    input_of,
    template_mistakes,
)

DOCUMENT = {"body": {"kind": "created", "count": 1, "is": True, "none": None, "items": [{"a": 0}, {"a": 2}]}}
ROOTS = ("body", "headers")


@pytest.mark.parametrize(
    ("filter", "is_fit"),
    [
        ({}, True),
        ({"body.kind": "created"}, True),
        ({"body.kind": ["x", "created"]}, True),
        ({"body.kind": "created", "body.count": 2}, False),
        ({"body.count": 1.0}, True),
        ({"body.count": True}, False),
        ({"body.is": 1}, False),
        ({"body.is": True}, True),
        ({"body.none": None}, True),
        ({"body.gone": None}, False),
        ({"body.items.1.a": 2}, True),
        ({"body.items.2.a": 2}, False),
        ({"body.kind.deeper": "created"}, False),
        ({"body.items": 1}, False),
    ],
)
def test_all_paths_must_have_one_of_their_values(filter: dict[str, Any], is_fit: bool) -> None:
    assert fits(filter, DOCUMENT) is is_fit


def test_a_template_takes_parts_with_their_types() -> None:
    template = {"n": "${input.body.count}", "text": "is ${input.body.kind}", "$": "$${x}", "all": "${input}"}
    assert input_of(template, DOCUMENT) == {"n": 1, "text": "is created", "$": "${x}", "all": DOCUMENT}
    assert input_of(None, DOCUMENT) == DOCUMENT
    with pytest.raises(InvalidInput, match="no key 'gone'"):
        input_of("${input.body.gone}", DOCUMENT)
    with pytest.raises(InvalidInput, match="kind"):
        input_of("${input.body.kind * 2}", DOCUMENT)


@pytest.mark.parametrize(
    ("filter", "fields"),
    [
        ({"body": 1, "headers.x": [1, "a", None]}, []),
        ({"event.x": 1, "body..x": 1, "": 1, "body.x": []}, ["event.x", "body..x", "", "body.x"]),
        (
            {"body.a": {}, "body.b": [[]], "body.c": list(range(MAX_CHOICES + 1))},
            ["body.a", "body.b", "body.c"],
        ),
        ({"body." + "x" * 200: 1}, ["body." + "x" * 195]),
    ],
)
def test_each_mistake_of_a_filter_is_named(filter: dict[str, Any], fields: list[str]) -> None:
    assert [each.field for each in filter_mistakes(filter, ROOTS)] == [f"filter.{name}" for name in fields]


def test_a_filter_has_a_bound() -> None:
    assert filter_mistakes({f"body.{n}": n for n in range(MAX_PATHS + 1)}, ROOTS)[0].code == "too_big"


def test_each_mistake_of_a_template_is_named() -> None:
    wrong = {"a": "${steps.x}", "b": ["${input.event}"], "c": "${", "d": "${input.body.x}", "e": "${input}"}
    assert [each.field for each in template_mistakes(wrong, ROOTS)] == ["input.c", "input.a", "input.b[0]"]
    assert not template_mistakes(None, ROOTS)
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    assert template_mistakes(deep, ROOTS)[0].code == "too_deep"
