"""What a document may say of failed steps and of the end of a run, and what its normal form is."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec import Body, ChildCall, ChildPipeline, ErrorRule, PipelineSpec, parse_spec

STEPS = [{"id": "reserve", "task": "t"}, {"id": "charge_card", "task": "t"}]


def read(*steps: dict[str, Any], **more: Any) -> PipelineSpec:
    return parse_spec({"id": "p", "steps": list(steps) or STEPS, **more})


def mistakes(*steps: dict[str, Any], **more: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refused:
        read(*steps, **more)
    return {each.field: each.message for each in refused.value.errors}


TELL = {"pipeline": "tell", "params": {"code": "${error.code}", "order": "${input.order}"}}
TOLD = ChildCall(ChildPipeline("tell"), TELL["params"])


@pytest.mark.parametrize("key", ["onError", "on_error"])
def test_a_step_says_what_runs_when_it_failed(key: str) -> None:
    [step] = read({"id": "a", "task": "t", key: TELL}).steps
    assert step.on_error == ErrorRule(TOLD)
    [step] = read({"id": "a", "task": "t", key: {**TELL, "handled": False}}).steps
    assert step.on_error == ErrorRule(TOLD, is_handled=False)
    [step] = read({"id": "a", "task": "t", key: "tell"}).steps
    assert step.on_error == ErrorRule(ChildCall(ChildPipeline("tell")))


@pytest.mark.parametrize("key", ["errorHandlers", "error_handlers"])
def test_a_pipeline_says_which_errors_it_handles(key: str) -> None:
    rules = [
        {"condition": "${error.step} == 'charge_card'", **TELL},
        {"condition": "error.code in ['A', variables.other]", "pipeline": {"id": "tell", "version": 2}},
        {"pipeline": "alert", "handled": False},
    ]
    spec = read(variables={"other": "B", "size": "${input.size}"}, **{key: rules})
    assert spec.error_rules == (
        ErrorRule(TOLD, "${error.step} == 'charge_card'"),
        ErrorRule(ChildCall(ChildPipeline("tell", 2)), "error.code in ['A', variables.other]"),
        ErrorRule(ChildCall(ChildPipeline("alert")), None, False),
    )


def test_a_pipeline_says_what_runs_at_its_end() -> None:
    params = {"outcome": "${run.outcome}", "paid": "${steps.charge_card}", "why": "${errors.reserve.code}"}
    spec = read(**{"finally": {"pipeline": "clean", "params": params}, "finallyTimeout": "10m"})
    assert spec.finally_call == ChildCall(ChildPipeline("clean"), params)
    assert spec.finally_timeout_ms == 600_000


def test_a_step_says_what_takes_it_back_and_may_refer_to_itself_and_to_later_steps() -> None:
    params = {"receipt": "${steps.charge}", "parcel": "${steps.ship}"}
    spec = read(
        {"id": "charge", "task": "t", "compensate": {"pipeline": "refund", "params": params}},
        {"id": "ship", "task": "t"},
    )
    assert spec.steps[0].compensate == ChildCall(ChildPipeline("refund"), params)
    assert [each.needs for each in spec.steps] == [(), ("charge",)]


def test_what_handles_an_error_follows_the_steps_that_it_refers_to() -> None:
    refers = {"pipeline": "tell", "params": {"stock": "${steps.a}"}}
    spec = read(
        {"id": "a", "task": "t"},
        {"id": "b", "task": "t", "needs": [], "onError": refers},
    )
    assert spec.steps[1].needs == ("a",)


def test_the_normal_form_parses_to_itself_and_a_document_without_these_keys_stays_as_it_was() -> None:
    spec = read(
        {"id": "a", "task": "t", "onError": {**TELL, "handled": False}, "compensate": "undo"},
        errorHandlers=[{"condition": "error.code == 'A'", **TELL}],
        **{"finally": "clean", "finallyTimeout": 30},
    )
    assert parse_spec(spec.to_json()) == spec
    plain = read().to_json()
    assert plain.keys() == {"id", "failureMode", "steps"}
    assert plain["steps"][0].keys() == {"id", "task", "needs"}


def test_steps_may_take_care_of_an_error_as_the_other_notation_writes_them() -> None:
    handlers = [
        {
            "condition": "${error.step} == 'charge_card'",
            "steps": [{"id": "refund_points", "task": "t", "params": {"order": "${input.order.id}"}}],
        }
    ]
    back = [{"id": "put_back", "task": "t", "params": {"n": "${steps.reserve}"}}]
    at_end = {"how": "${run.outcome}", "b": "${status.reserve}"}
    told = [{"id": "tell", "task": "t", "params": {"why": "${error.message}", "stock": "${steps.reserve}"}}]
    spec = read(
        {"id": "reserve", "task": "t", "compensate": back},
        {"id": "charge_card", "task": "t", "needs": [], "on_error": told},
        error_handlers=handlers,
        **{"finally": [{"id": "clean", "task": "t", "params": at_end}]},
    )
    assert list(spec.bodies) == ["reserve.compensate", "charge_card.onError", "errorHandlers[0]", "finally"]
    assert [each.needs for each in spec.steps] == [(), ("reserve",)]
    assert isinstance(spec.error_rules[0].call.runs, Body)
    assert spec.to_json()["finally"]["steps"][0]["id"] == "clean"
    assert parse_spec(spec.to_json()) == spec
    assert len(dict(spec.all_steps)) == 6


def test_ids_of_steps_that_take_care_of_errors_are_those_of_no_other_step() -> None:
    assert (
        "is the id of"
        in mistakes({"id": "a", "task": "t", "onError": [{"id": "a", "task": "t"}]})["steps[0].onError[0].id"]
    )


@pytest.mark.parametrize(
    ("more", "field", "why"),
    [
        ({"errorHandlers": {}}, "errorHandlers", "must be a list"),
        ({"errorHandlers": [{}] * 51}, "errorHandlers", "at most 50"),
        ({"errorHandlers": [3]}, "errorHandlers[0]", "must be a list of steps, or an object"),
        ({"errorHandlers": [{}]}, "errorHandlers[0].pipeline", "is required"),
        ({"errorHandlers": [{"pipeline": "x", "handld": 1}]}, "errorHandlers[0].handld", "'handled'"),
        ({"errorHandlers": [{"pipeline": "x", "handled": 1}]}, "errorHandlers[0].handled", "true or false"),
        (
            {"errorHandlers": [{"pipeline": "x", "condition": "input.a == 1"}]},
            "errorHandlers[0].condition",
            "has no value here: use error, variables",
        ),
        (
            {"errorHandlers": [{"pipeline": "x", "condition": "error.cod == 'A'"}]},
            "errorHandlers[0].condition",
            "did you mean 'code'?",
        ),
        (
            {
                "variables": {"v": "${input.a}"},
                "errorHandlers": [{"pipeline": "x", "condition": "variables.v == 1"}],
            },
            "errorHandlers[0].condition",
            "a condition here takes constants alone",
        ),
        (
            {"errorHandlers": [{"pipeline": "x", "params": {"a": "${steps.chrge_card}"}}]},
            "errorHandlers[0].params.a",
            "did you mean 'charge_card'?",
        ),
        (
            {"errorHandlers": [{"pipeline": "x", "params": {"a": "${item}"}}]},
            "errorHandlers[0].params.a",
            "has no value here",
        ),
        ({"finally": {"pipeline": "x", "params": []}}, "finally.params", "must be an object"),
        ({"finally": {"pipeline": "x", "handled": False}}, "finally.handled", "is not a known key"),
        (
            {"finally": {"pipeline": "x", "params": {"a": "${error.code}"}}},
            "finally.params.a",
            "error.code has no value here",
        ),
        ({"finallyTimeout": "soon"}, "finallyTimeout", "is 'soon'"),
        ({"error_handlers": [], "errorHandlers": []}, "error_handlers", "is the same as `errorHandlers`"),
    ],
)
def test_what_is_wrong_of_a_pipeline_is_told_with_its_place(
    more: dict[str, Any], field: str, why: str
) -> None:
    assert why in mistakes(**more)[field]


@pytest.mark.parametrize(
    ("keys", "field", "why"),
    [
        ({"onError": []}, "onError", "must hold at least one step"),
        ({"onError": 3}, "onError", "must be a list of steps, or an object"),
        (
            {"onError": {"steps": [{"task": "t"}], "pipeline": "x"}},
            "onError.pipeline",
            "together with `steps`",
        ),
        ({"onError": [{"task": "t", "params": {"a": "${steps.b}"}}]}, "onError[0].params.a", "is not a step"),
        (
            {"compensate": [{"task": "t", "params": {"a": "${error.code}"}}]},
            "compensate[0].params.a",
            "no value",
        ),
        ({"onError": {"pipeline": "x", "condition": "true"}}, "onError.condition", "is not a known key"),
        ({"onError": {"pipeline": "x", "params": {"a": "${steps.a}"}}}, "onError.params.a", "own output"),
        ({"compensate": {"params": {}}}, "compensate.pipeline", "is required"),
        (
            {"compensate": {"pipeline": "x", "params": {"a": "${steps.b}"}}},
            "compensate.params.a",
            "'b' is not a step",
        ),
        ({"params": {"a": "${error.code}"}}, "params.a", "error.code has no value here"),
        ({"condition": "error.code == 'A'"}, "condition", "error.code has no value here"),
    ],
)
def test_what_is_wrong_of_a_step_is_told_with_its_place(keys: dict[str, Any], field: str, why: str) -> None:
    assert why in mistakes({"id": "a", "task": "t", **keys})[f"steps[0].{field}"]
