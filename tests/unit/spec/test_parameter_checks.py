"""The params of steps, compared with the parameters of their tasks."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.spec import parameter_errors, parse_spec

FIELDS = [
    {"name": "folder", "label": "Folder", "type": "string", "required": True},
    {"name": "deep", "label": "Deep", "type": "boolean", "required": False},
]
LIST = {"fields": FIELDS, "strict": True}


def mistakes(step: dict[str, Any], parameters: Any = LIST) -> list[tuple[str, str]]:
    spec = parse_spec({"id": "p", "steps": [{"task": "list", **step}]})
    return [(each.field, each.message) for each in parameter_errors(spec, {"list": parameters})]


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ({"params": {"folder": "x"}}, []),
        ({"params": {"folder": "x", "deep": True}}, []),
        ({}, []),
        (
            {"params": {"fodler": "x"}},
            [
                ("steps[0].params.fodler", "task 'list' has no parameter 'fodler'; did you mean 'folder'?"),
                ("steps[0].params", "task 'list' needs the parameter 'folder'"),
            ],
        ),
        (
            {"params": {"folder": 1, "xyz": 1}},
            [("steps[0].params.xyz", "task 'list' has no parameter 'xyz'; the task takes folder, deep")],
        ),
        ({"map": "${input.x}", "params": {"deep": True}}, []),
        ({"map": {"over": "${input.x}", "as": "folder"}, "params": {"deep": True}}, []),
        (
            {"map": {"over": "${input.x}", "as": "fold"}},
            [("steps[0].map.as", "task 'list' has no parameter 'fold'; did you mean 'folder'?")],
        ),
        (
            {"map": {"over": "${input.x}", "as": "deep"}, "params": {}},
            [("steps[0].params", "task 'list' needs the parameter 'folder'")],
        ),
    ],
)
def test_unknown_and_missing_params_are_named(step: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert mistakes(step) == found


def test_a_task_that_takes_any_name_has_no_unknown_params() -> None:
    assert mistakes({"params": {"folder": 1, "xyz": 1}}, {**LIST, "strict": False}) == []


def test_params_are_not_checked_where_the_parameters_are_not_known() -> None:
    assert mistakes({"params": {"xyz": 1}}, None) == []


def test_a_parameter_input_gets_all_params() -> None:
    whole = {
        "fields": [{"name": "input", "label": "Input", "type": "json", "required": True}],
        "strict": False,
    }
    assert mistakes({"params": {"a": 1}}, whole) == []
