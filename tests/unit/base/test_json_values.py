"""What may be stored as JSON."""

from __future__ import annotations

import datetime as dt
from typing import Any

import orjson
import pytest
from support.nesting import nested

from pipeweave.json_values import json_faults, own_copy, write_json
from pipeweave.size_limits import MAX_JSON_DEPTH


@pytest.mark.parametrize(
    "value", [None, True, 0, -(2**63), 2**64 - 1, 1.5, "ä😀", [], {"a": [{"b": (1, 2)}]}]
)
def test_json_values_have_no_faults(value: Any) -> None:
    assert json_faults(value) == []


@pytest.mark.parametrize(
    ("value", "field", "why"),
    [
        ({"a": [1, float("nan")]}, "a[1]", "nan"),
        ({"a": {"b": 2**64}}, "a.b", "64 bits"),
        ({1: "x"}, "", "keys must be text"),
        ({"at": dt.date(2024, 1, 1)}, "at", "a date"),
        ([{1, 2}], "[0]", "a set"),
        ({"t": "a\x00b"}, "t", "U+0000"),
        ({"t": "\ud800"}, "t", "surrogate"),
        ({"\ud800": 1}, "", "surrogate"),
    ],
)
def test_the_place_of_what_is_not_json_is_named(value: Any, field: str, why: str) -> None:
    (fault,) = json_faults(value)
    assert fault.field == field
    assert why in fault.message


def test_a_value_that_holds_itself_ends() -> None:
    looped: list[Any] = []
    looped.append(looped)
    assert json_faults(looped)[0].code == "too_deep"


def test_a_value_that_multiplies_by_aliases_ends_at_the_budget() -> None:
    value: Any = "lol"
    for _ in range(40):
        value = [value] * 10
    assert json_faults(value, budget=10_000)[-1].code == "too_large"


def test_at_most_twenty_faults_are_told() -> None:
    assert len(json_faults([float("inf")] * 100)) == 20


def test_the_deepest_value_is_written_and_a_deeper_one_is_not() -> None:
    for value in (nested(MAX_JSON_DEPTH), [nested(MAX_JSON_DEPTH - 1)] * 9, [{"a": []}] * 999):
        assert orjson.loads(write_json(value)) == value
    for deeper in (nested(MAX_JSON_DEPTH + 1), [1, nested(MAX_JSON_DEPTH)], nested(255), nested(100_000)):
        with pytest.raises(TypeError, match="deeper than 200 levels"):
            write_json(deeper)


def test_what_is_not_json_is_not_written() -> None:
    with pytest.raises(TypeError, match="set"):
        write_json([set()])


def test_a_copy_for_one_call_shares_nothing_however_deep_the_value_is() -> None:
    value: list[Any] = ["kept"]
    innermost = value
    for _ in range(300):
        value = [value]
    copied = own_copy(value)
    assert copied == value
    while isinstance(copied[0], list):
        copied = copied[0]
    copied.append("spoilt")
    assert innermost == ["kept"]
