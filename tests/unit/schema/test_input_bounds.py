"""A hostile input costs little: the check stops early, and options are compared by key."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.field_errors import MOST_ERRORS
from pipeweave.schema import validation
from pipeweave.schema.validation import validate_input


def schema(**members: Any) -> dict[str, Any]:
    return {"fields": [{"name": "f", "label": "F", **members}]}


class CountedList(list[Any]):
    """A list that counts how many of its items were read."""

    read = 0

    def __iter__(self) -> Any:
        for each in super().__iter__():
            self.read += 1
            yield each


class CountedOption(dict[str, Any]):
    """An option that counts how often its value was read."""

    read = 0

    def __getitem__(self, key: str) -> Any:
        if key == "value":
            self.read += 1
        return super().__getitem__(key)


def test_the_check_stops_at_the_hundredth_error() -> None:
    wrong = CountedList([1] * 100_000)
    texts = schema(type="array", items={"name": "x", "label": "X", "type": "string"})
    assert len(validate_input(texts, {"f": wrong})) == MOST_ERRORS
    assert wrong.read == MOST_ERRORS


def test_the_options_of_a_field_are_read_once_for_all_values() -> None:
    options = [CountedOption(label="X", value=f"v{number}") for number in range(1_000)]
    values = ["v999"] * 5_000
    assert validate_input(schema(type="multiselect", options=options), {"f": values}) == []
    assert max(each.read for each in options) == 1


def test_an_error_shows_only_the_beginning_of_long_texts() -> None:
    options = [{"label": "X", "value": "x" * 100_000}] * 30
    errors = validate_input(schema(type="select", options=options), {"f": "y"})
    unknown = validate_input(schema(type="json") | {"strict": True}, {"f": 1, "k" * 100_000: 2})
    assert [len(each.message) < 3_000 for each in (*errors, *unknown)] == [True, True]


def test_options_compare_numbers_as_json_does_and_never_with_booleans() -> None:
    numbers = schema(type="select", options=[{"label": "One", "value": 1}])
    assert [bool(validate_input(numbers, {"f": value})) for value in (1, 1.0, True, [1], {})] == [
        *(False, False, True, True, True)
    ]


def test_a_schema_is_checked_once_and_each_schema_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    check = validation.validate_schema

    def noted(schema: Any) -> Any:
        checked.append(schema)
        return check(schema)

    monkeypatch.setattr(validation, "validate_schema", noted)
    right, wrong = schema(type="integer"), schema(type="unknown")
    for _ in range(3):
        assert validate_input(right, {"f": 1}) == []
        assert [each.code for each in validate_input(wrong, {"f": 1})] == ["invalid_schema"]
    assert checked == [right, wrong]
    for _ in range(2 * validation.MOST_CHECKED):
        validate_input(schema(type="integer"), {"f": 1})
    assert len(validation._checked) <= validation.MOST_CHECKED
