"""What a pipeline runs other pipelines with, compared with their input schemas."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.spec import ChildPipeline, PipelineSpec, child_errors, child_references, parse_spec
from pipeweave.spec.child_checks import unknown_pipelines

AMOUNT = {"name": "amount", "label": "Amount", "type": "number", "required": True}
NOTE = {"name": "note", "label": "Note", "type": "string"}
CHARGE = parse_spec(
    {
        "id": "charge",
        "inputSchema": {"fields": [AMOUNT, NOTE], "strict": True},
        "steps": [{"id": "pay", "task": "pay"}],
    }
)
KNOWN = {ChildPipeline("charge"): CHARGE}


def document(*steps: dict[str, Any], **members: Any) -> PipelineSpec:
    return parse_spec({"id": "orders", "steps": [{"id": "first", "task": "noop"}, *steps], **members})


def mistakes(
    *steps: dict[str, Any], known: dict[ChildPipeline, PipelineSpec] = KNOWN, **members: Any
) -> list[tuple[str, str]]:
    errors = child_errors(document(*steps, **members), known)
    return [(each.field, each.code) for each in errors]


def step(params: Any = None, **members: Any) -> dict[str, Any]:
    shown = {"id": "charge", "pipeline": "charge", **members}
    return shown if params is None else {**shown, "params": params}


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        ({"amount": 5}, []),
        ({"amount": "${steps.first.total}", "note": "of ${input.order}"}, []),
        ({"amout": 5}, [("params.amout", "unknown_parameter"), ("params", "missing_parameter")]),
        ({"amount": "five"}, [("params.amount", "invalid_type")]),
        ({"amount": 5, "note": 7}, [("params.note", "invalid_type")]),
        ({"note": "x"}, [("params", "missing_parameter")]),
        ({}, [("params", "missing_parameter")]),
        (None, [("params", "missing_parameter")]),
    ],
)
def test_params_of_a_step_are_named_that_the_pipeline_refuses_or_misses(
    params: Any, wrong: list[tuple[str, str]]
) -> None:
    assert mistakes(step(params)) == [(f"steps[1].{field}", code) for field, code in wrong]


def test_a_mistake_says_what_the_pipeline_takes() -> None:
    [unknown, missing] = child_errors(document(step({"amout": 5})), KNOWN)
    assert unknown.message == "pipeline 'charge' has no input 'amout'; did you mean 'amount'?"
    assert missing.message == "pipeline 'charge' needs the input 'amount'"
    assert unknown.as_graph_error().to_json() == {
        "code": "UNKNOWN_PARAMETER",
        "message": f"step 'charge': {unknown.message}",
        "steps": ["charge"],
    }


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        ({"map": {"over": "${input.all}"}}, []),
        ({"map": {"over": "${input.all}", "as": "amount"}}, []),
        (
            {"map": {"over": "${input.all}", "as": "amout"}},
            [("steps[1].map.as", "unknown_parameter"), ("steps[1].params", "missing_parameter")],
        ),
        ({"map": {"over": "${input.all}"}, "params": {"amount": "${item}"}}, []),
        (
            {"map": {"over": "${input.all}"}, "params": {"note": "${item}"}},
            [("steps[1].params", "missing_parameter")],
        ),
    ],
)
def test_of_a_map_the_item_is_the_input_or_one_of_its_members(
    members: dict[str, Any], wrong: list[tuple[str, str]]
) -> None:
    assert mistakes(step(**members)) == wrong


def test_rounds_of_a_loop_are_checked() -> None:
    loop = {"pipeline": "charge", "maxIterations": 3}
    good = {"id": "again", "loop": loop, "params": {"amount": "${loop.index}"}}
    assert mistakes(good) == []
    assert mistakes({**good, "params": {"n": 1, "amount": 1}}) == [("steps[1].params.n", "unknown_parameter")]


def test_steps_of_bodies_and_rules_are_checked() -> None:
    call = {"pipeline": "charge", "params": {"amount": "much"}}
    work = {"id": "work", "task": "noop", "onError": call, "compensate": call}
    body = {"id": "each", "map": {"over": "${input.all}", "steps": [step({"amount": "much"})]}}
    wrong = mistakes(
        work, body, errorHandlers=[{"condition": "error.code == 'X'", **call}], **{"finally": call}
    )
    assert wrong == [
        ("steps[1].onError.params.amount", "invalid_type"),
        ("steps[1].compensate.params.amount", "invalid_type"),
        ("steps[2].map.steps[0].params.amount", "invalid_type"),
        ("errorHandlers[0].params.amount", "invalid_type"),
        ("finally.params.amount", "invalid_type"),
    ]


def test_without_params_a_rule_for_errors_gives_the_error() -> None:
    error = {"name": "error", "label": "Error", "type": "json", "required": True}
    takes = parse_spec({**CHARGE.to_json(), "inputSchema": {"fields": [error], "strict": True}})
    call = {"pipeline": "charge"}
    work = {"id": "work", "task": "noop", "onError": call}
    assert mistakes(work, known={ChildPipeline("charge"): takes}) == []
    assert mistakes(work) == [
        ("steps[1].onError.params.error", "unknown_parameter"),
        ("steps[1].onError.params", "missing_parameter"),
    ]


def test_what_a_pipeline_fills_itself_is_not_missed() -> None:
    filled = parse_spec({**CHARGE.to_json(), "defaults": {"amount": 1}})
    assert mistakes(step({"note": "x"}), known={ChildPipeline("charge"): filled}) == []


def test_a_pipeline_that_takes_any_name_or_says_nothing_has_no_unknown_params() -> None:
    loose = parse_spec({**CHARGE.to_json(), "inputSchema": {"fields": [AMOUNT]}})
    assert mistakes(step({"amount": 1, "x": 1}), known={ChildPipeline("charge"): loose}) == []
    silent = parse_spec({"id": "charge", "steps": [{"id": "pay", "task": "pay"}]})
    assert mistakes(step({"x": 1}), known={ChildPipeline("charge"): silent}) == []
    assert mistakes(step({"x": 1}), known={}) == []


def test_a_version_is_another_pipeline() -> None:
    pinned = {"id": "charge", "pipeline": {"id": "charge", "version": 2}, "params": {"x": 1}}
    assert mistakes(pinned) == []
    assert len(mistakes(pinned, known={ChildPipeline("charge", 2): CHARGE})) == 2


def test_what_is_not_stored_is_named_with_its_place_and_the_nearest_name() -> None:
    spec = document(step({"amount": 1}, pipeline="chrage"), **{"finally": {"pipeline": "tidy"}})
    first, second = unknown_pipelines(spec, (), ["charge"])
    assert first.to_json() == {
        "code": "UNKNOWN_PIPELINE",
        "message": "steps[1].pipeline: step 'charge' runs pipeline 'chrage', which is not stored;"
        " did you mean 'charge'?",
        "steps": ["charge"],
    }
    assert second.message == "finally.pipeline: finally runs pipeline 'tidy', which is not stored"
    pinned = document({"id": "charge", "pipeline": {"id": "charge", "version": 7}})
    [missing] = unknown_pipelines(pinned, (), ["charge"])
    assert missing.message.endswith("runs pipeline 'charge', of which version 7 is not stored")


def test_a_pipeline_without_such_steps_names_none() -> None:
    assert list(child_references(document())) == []
