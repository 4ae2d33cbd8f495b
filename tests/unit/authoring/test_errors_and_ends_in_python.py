"""What runs when a step fails, and when a run ends, as a `@pipeline` function says it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pipeweave import TaskError, body, otherwise, pipeline, settle, task, when
from pipeweave.errors import InvalidSpec
from pipeweave.spec import ChildCall, ChildPipeline, ErrorRule, parse_spec
from pipeweave.testing import run_pipeline


@task
def charge(amount: int) -> str:
    return "receipt"


@task
def ship(receipt: str) -> None: ...


@pipeline
def tell(error: dict[str, object]) -> None:
    ship("nobody")


RULES = [{"condition": "error.kind == 'TIMEOUT'", "pipeline": tell, "params": {"why": "${error.message}"}}]


@pipeline(error_handlers=RULES, finally_="clean", finally_timeout="10m")
def sell(amount: int) -> None:
    receipt = charge.options(on_error=tell, compensate={"pipeline": "refund", "params": {"of": amount}})(
        amount
    )
    ship.options(on_error={"pipeline": tell, "params": {"of": receipt}, "handled": False})(receipt)


def test_a_pipeline_says_what_follows_its_errors_and_its_end() -> None:
    spec = sell.spec
    why = ChildCall(ChildPipeline("tell"), {"why": "${error.message}"})
    assert spec.error_rules == (ErrorRule(why, "error.kind == 'TIMEOUT'"),)
    assert spec.finally_call == ChildCall(ChildPipeline("clean"))
    assert spec.finally_timeout_ms == 600_000
    first, second = spec.steps
    assert first.on_error == ErrorRule(ChildCall(ChildPipeline("tell")))
    assert first.compensate == ChildCall(ChildPipeline("refund"), {"of": "${input.amount}"})
    assert second.on_error == ErrorRule(
        ChildCall(ChildPipeline("tell"), {"of": "${steps.charge}"}), is_handled=False
    )


def test_a_step_that_runs_a_pipeline_has_the_same_rules() -> None:
    @pipeline
    def around(amount: int) -> None:
        undo = {"task": ship, "params": {"receipt": "${steps.sell}"}}
        sell.options(on_error=tell, compensate=undo)(amount)
        sell.options(on_error={"task": ship, "params": {"receipt": "${error.code}"}}).map([amount])

    document = """
    id: around
    inputSchema: {strict: true, fields: [{name: amount, label: Amount, type: integer, required: true}]}
    steps:
      - id: sell
        pipeline: sell
        params: {amount: "${input.amount}"}
        onError: tell
        compensate: {steps: [{task: ship, params: {receipt: "${steps.sell}"}}]}
      - id: sell_2
        pipeline: sell
        needs: []
        map: {over: ["${input.amount}"], as: amount}
        onError: {steps: [{task: ship, params: {receipt: "${error.code}"}}]}
    """
    assert around.spec.spec_hash == parse_spec(yaml.safe_load(document)).spec_hash


def test_a_body_and_its_steps_have_the_same_rules_in_a_block_too() -> None:
    @pipeline
    def sell_each(amount: int) -> None:
        with when(amount > 1):
            paid = charge.options(step_id="paid")(amount)

            @body
            def one(each: int) -> None:
                undo = {"task": ship, "params": {"receipt": "${steps.sent} ${steps.paid} ${item}"}}
                charge.options(step_id="sent", compensate=undo)(each)

            back = {"task": ship, "params": {"receipt": "${status.one} ${status.late}"}}
            one.options(on_error={"task": ship, "params": {"receipt": paid}}, compensate=back).map([amount])
            charge.options(step_id="late")(amount)

    document = """
    id: sell_each
    inputSchema: {strict: true, fields: [{name: amount, label: Amount, type: integer, required: true}]}
    steps:
      - choice:
          - condition: input.amount > 1
            steps:
              - {id: paid, task: charge, params: {amount: "${input.amount}"}}
              - id: one
                needs: [paid]
                map:
                  over: ["${input.amount}"]
                  steps:
                    - id: sent
                      task: charge
                      params: {amount: "${item}"}
                      compensate:
                        steps: [{task: ship, params: {receipt: "${steps.sent} ${steps.paid} ${item}"}}]
                onError: {steps: [{task: ship, params: {receipt: "${steps.paid}"}}]}
                compensate: {steps: [{task: ship, params: {receipt: "${status.one} ${status.late}"}}]}
              - {id: late, needs: [], task: charge, params: {amount: "${input.amount}"}}
    """
    assert sell_each.spec.spec_hash == parse_spec(yaml.safe_load(document)).spec_hash


def test_a_task_may_take_care_of_errors_and_ends_as_the_one_step_of_a_body() -> None:
    params = {"receipt": "${steps.paid}"}
    told = {"task": ship, "params": {"receipt": "${error.message}"}, "handled": False}

    @pipeline(
        error_handlers=[
            {"condition": "error.kind == 'TIMEOUT'", "task": ship, "params": {"receipt": "late"}}
        ],
        finally_={"task": "ship", "params": {"receipt": "${run.outcome}"}},
    )
    def careful(amount: int) -> None:
        charge.options(step_id="paid", compensate={"task": ship, "params": params}, on_error=told)(amount)
        ship.options(compensate=charge)("receipt")

    document = """
    id: careful
    inputSchema: {strict: true, fields: [{name: amount, label: Amount, type: integer, required: true}]}
    finally: {steps: [{task: ship, params: {receipt: "${run.outcome}"}}]}
    errorHandlers:
      - {condition: error.kind == 'TIMEOUT', steps: [{task: ship, params: {receipt: late}}]}
    steps:
      - id: paid
        task: charge
        params: {amount: "${input.amount}"}
        compensate: {steps: [{task: ship, params: {receipt: "${steps.paid}"}}]}
        onError: {steps: [{task: ship, params: {receipt: "${error.message}"}}], handled: false}
      - {task: ship, needs: [], params: {receipt: receipt}, compensate: {steps: [{task: charge}]}}
    """
    assert careful.spec.spec_hash == parse_spec(yaml.safe_load(document)).spec_hash


def test_a_task_that_takes_a_step_back_gets_what_its_params_name() -> None:
    undone: list[str] = []

    @pipeline
    def sell_one(amount: int) -> None:
        undo = {"task": ship, "params": {"receipt": "undo ${steps.charge}"}}
        paid = charge.options(compensate=undo)(amount)
        ship.options(step_id="sent")(paid)

    def refuse(receipt: str) -> None:
        undone.append(receipt)
        if not receipt.startswith("undo"):
            raise TaskError("no van", code="NO_VAN", retryable=False)

    result = run_pipeline(sell_one, {"amount": 5}, tasks={"ship": refuse})
    assert (result.status, undone) == ("failed", ["receipt", "undo receipt"])
    assert result.ending["compensate:charge"].status == "completed"


@pytest.mark.parametrize("wrong", [5, {"pipeline": charge}, {"task": 5}, {"task": tell}])
def test_what_is_no_pipeline_and_no_task_is_refused_with_what_to_write(wrong: Any) -> None:
    with pytest.raises(InvalidSpec, match=r"on_error.* must be a ") as refused:
        charge.options(on_error=wrong)
    assert "on_error=tell" in str(refused.value.hint)


UNDO = {"pipeline": "refund", "params": {"own": "${steps.own.id}", "other": "${status.other}"}}


@pipeline
def sell_in_blocks(amount: int) -> None:
    with when(amount > 10):
        charge.options(step_id="own", compensate=UNDO)(amount)
        charge.options(step_id="other")(amount)
    with otherwise():
        of_small = {"pipeline": "refund", "params": {"of": "${steps.small}"}}
        charge.options(step_id="small", compensate=of_small)(1)
        with settle(step_id="both"):
            of_both = {"of": "${steps.left}", "and": "${status.right}"}
            charge.options(step_id="left", compensate={"pipeline": "refund", "params": of_both})(2)
            charge.options(step_id="right")(3)
            tell.options(step_id="last", needs=["right"])({})


SELL_IN_BLOCKS = """
id: sell_in_blocks
inputSchema: {strict: true, fields: [{name: amount, label: Amount, type: integer, required: true}]}
steps:
  - choice:
      - condition: input.amount > 10
        steps:
          - id: own
            task: charge
            needs: []
            params: {amount: "${input.amount}"}
            compensate: {pipeline: refund, params: {own: "${steps.own.id}", other: "${status.other}"}}
          - {id: other, task: charge, needs: [], params: {amount: "${input.amount}"}}
      - steps:
          - id: small
            task: charge
            needs: []
            params: {amount: 1}
            compensate: {pipeline: refund, params: {of: "${steps.small}"}}
          - id: both
            parallel:
              failure: settle
              steps:
                - id: left
                  task: charge
                  needs: []
                  params: {amount: 2}
                  compensate: {pipeline: refund, params: {of: "${steps.left}", and: "${status.right}"}}
                - {id: right, task: charge, needs: [], params: {amount: 3}}
                - {id: last, pipeline: tell, needs: [right], params: {error: {}}}
"""


def test_a_step_does_not_follow_what_its_compensation_names_in_any_block() -> None:
    spec = sell_in_blocks.spec
    assert {each.id: each.needs for each in spec.steps if each.id != "both"} == {
        "choice": (),
        "own": ("choice",),
        "other": ("choice",),
        "small": ("choice",),
        "left": ("choice",),
        "right": ("choice",),
        "last": ("right",),
    }
    assert spec.spec_hash == parse_spec(yaml.safe_load(SELL_IN_BLOCKS)).spec_hash


def test_a_step_follows_what_its_error_rule_names_in_a_block_too() -> None:
    @pipeline
    def careful(amount: int) -> None:
        with when(amount > 10):
            paid = charge.options(step_id="paid")(amount)
            by_hand: Any = {"pipeline": tell, "params": {"paid": paid, "why": "${error.code}"}}
            ship.options(on_error=by_hand)("r")

    assert careful.spec.by_id["ship"].needs == ("paid",)


def test_an_error_rule_that_names_its_own_step_is_refused_in_a_block_as_outside() -> None:
    @pipeline
    def wrong(amount: int) -> None:
        with when(amount > 10):
            charge.options(on_error={"pipeline": tell, "params": {"of": "${steps.charge}"}})(amount)

    with pytest.raises(InvalidSpec, match=r"onError\.params\.of .*is the step's own output"):
        _ = wrong.spec
