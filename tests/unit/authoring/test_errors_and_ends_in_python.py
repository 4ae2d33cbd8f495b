"""What runs when a step fails, and when a run ends, as a `@pipeline` function says it."""

from __future__ import annotations

import pytest

from pipeweave import pipeline, task
from pipeweave.errors import InvalidSpec
from pipeweave.spec import ChildCall, ChildPipeline, ErrorRule


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


def test_what_is_no_pipeline_is_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidSpec, match="on_error must be a pipeline or its id") as refused:
        charge.options(on_error=charge)
    assert "on_error=tell" in str(refused.value.hint)
