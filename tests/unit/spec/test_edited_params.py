"""Params in place of those of a step: what they may name, and what its task would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.size_limits import MAX_EDITED_PARAMS
from pipeweave.spec import MapSpec, PipelineSpec, StepSpec, Transform, edited_params_errors, takes_params
from pipeweave.spec.child_steps import ChildPipeline, LoopStep
from pipeweave.spec.engine_steps import engine_task

PARAMETERS = {
    "fields": [
        {"name": "amount", "label": "Amount", "type": "number", "required": True},
        {"name": "note", "label": "Note", "type": "string"},
    ],
    "strict": True,
}
SCHEMA = {"fields": [{"name": "limit", "label": "Limit", "type": "number"}], "strict": True}
SPEC = PipelineSpec("p", (StepSpec("load", "load"),), input_schema=SCHEMA, variables={"rate": 2})


def faults(
    params: dict[str, Any], *, map: MapSpec | None = None, input_schema: Any = None
) -> list[tuple[str, str]]:
    step = StepSpec("charge", "charge", ("load",), params, map)
    errors = edited_params_errors(
        SPEC, step, before=["load"], parameters=PARAMETERS, input_schema=input_schema, children={}
    )
    return [(each.field, each.code) for each in errors]


@pytest.mark.parametrize(
    "params",
    [
        {"amount": 5},
        {"amount": "${steps.load.total * variables.rate}", "note": "of ${input.limit}"},
        {"amount": 5, "note": "$${literal}"},
    ],
)
def test_constants_and_expressions_over_what_comes_before_are_taken(params: dict[str, Any]) -> None:
    assert faults(params) == []


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"amount": 5, "colour": "red"}, ("params.colour", "unknown_parameter")),
        ({"note": "x"}, ("params", "missing_parameter")),
        ({"amount": "five"}, ("params.amount", "invalid_type")),
        ({"amount": "${steps.later.total}"}, ("params.amount", "invalid_reference")),
        ({"amount": "${status.charge == 'failed'}"}, ("params.amount", "invalid_reference")),
        ({"amount": "${item}"}, ("params.amount", "invalid_reference")),
        ({"amount": "${loop.index}"}, ("params.amount", "invalid_reference")),
        ({"amount": "${steps.load.total +}"}, ("params.amount", "invalid_reference")),
        ({"amount": 5, "note": "\x00"}, ("params.note", "not_json")),
        ({"amount": 5, "note": "x" * MAX_EDITED_PARAMS}, ("params", "too_large")),
    ],
)
def test_a_mistake_is_told_at_its_place(params: dict[str, Any], fault: tuple[str, str]) -> None:
    assert faults(params) == [fault]


def test_an_input_that_the_pipeline_does_not_have_is_named() -> None:
    [(field, _)] = faults({"amount": "${input.limits}"})
    assert field == "params.amount"


def test_what_is_constant_is_checked_against_the_schema_that_the_task_declares() -> None:
    schema = {"fields": [{"name": "amount", "label": "Amount", "type": "number", "max": 10}], "strict": False}
    assert [field for field, _ in faults({"amount": 11}, input_schema=schema)] == ["params.amount"]
    assert faults({"amount": "${steps.load.total}"}, input_schema=schema) == []


def test_an_item_has_its_own_parameter_and_its_own_roots() -> None:
    mapped = MapSpec("${steps.load}", "note")
    assert faults({"amount": "${mapIndex + 1}"}, map=mapped) == []
    assert faults({"amount": 1, "note": "x"}, map=mapped) == [("params.note", "duplicate")]


def test_a_loop_may_refer_to_its_rounds_and_what_the_engine_decides_has_no_params() -> None:
    loop = LoopStep(ChildPipeline("inner"), 3)
    step = StepSpec("again", engine_task(loop), params={"round": "${loop.index}"}, decides=loop)
    assert edited_params_errors(SPEC, step, before=[], parameters=None, input_schema=None, children={}) == []
    assert takes_params(step)
    sums = Transform({"total": 1})
    assert not takes_params(StepSpec("sum", engine_task(sums), decides=sums))
