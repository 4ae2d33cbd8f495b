"""An input is checked as the call of a task's function checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pipeweave import Context
from pipeweave.authoring.calling import bind
from pipeweave.authoring.input_schema import task_parameters
from pipeweave.errors import InvalidParams
from pipeweave.schema import task_input_errors, task_input_schema


@dataclass
class Order:
    id: int
    shop: str = "berlin"


def plain(path: str, depth: int = 1) -> None: ...


def without_hints(path, ctx: Context) -> None: ...  # type: ignore[no-untyped-def]


def with_the_whole(input: Order) -> None: ...


def with_a_record(order: Order) -> None: ...


def with_anything(path: str, **more: object) -> None: ...


def without_parameters() -> None: ...


INPUTS: list[Any] = [
    *(None, [], "text", {}, {"path": "a"}, {"path": 7}, {"path": "a", "depth": 2}, {"path": "a", "other": 1}),
    *({"path": "a", "depth": "two"}, {"id": 7}, {"id": "seven"}, {"input": {"id": 7}}, {"input": 3}),
    *({"order": {"id": 7, "shop": "rome"}}, {"order": {"shop": "rome"}}, {"order": None}),
]


@pytest.mark.parametrize("given", INPUTS, ids=repr)
@pytest.mark.parametrize(
    "fn", [plain, without_hints, with_the_whole, with_a_record, with_anything, without_parameters]
)
def test_what_is_called_valid_is_taken_by_the_task(fn: Callable[..., Any], given: Any) -> None:
    found = task_input_errors(None, task_parameters(fn), given)
    try:
        bind(fn, Context(input=given))
    except InvalidParams:
        assert found
    else:
        assert not found


def test_the_schema_is_the_declared_one_or_that_of_the_parameters() -> None:
    declared = {"fields": [{"name": "to", "label": "To", "type": "email", "required": True}]}
    assert task_input_schema(declared, task_parameters(plain)) == declared
    found = task_input_schema(None, task_parameters(plain))
    assert found is not None
    assert [(each["name"], each["type"], each["required"]) for each in found["fields"]] == [
        ("path", "string", True),
        ("depth", "integer", False),
    ]
    whole = task_input_schema(None, task_parameters(with_the_whole))
    assert whole is not None
    assert [each["name"] for each in whole["fields"]] == ["id", "shop"]
    assert task_input_schema(None, task_parameters(without_parameters)) is None
    assert task_input_schema(None, None) is None


def test_a_declared_schema_and_the_parameters_both_count() -> None:
    declared = {"fields": [{"name": "path", "label": "Path", "type": "string", "minLength": 3}]}
    found = task_input_errors(declared, task_parameters(plain), {"path": "a", "depth": "two"})
    assert [each.field for each in found] == ["path", "depth"]
