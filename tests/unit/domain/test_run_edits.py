"""What a rerun edits: params in place of those of its version, and inputs that reused steps have read."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.orchestrator.domain.plan import compile_plan
from pipeweave.orchestrator.domain.run_edits import NO_EDITS, RunEdits
from pipeweave.spec import PipelineSpec, StepSpec

A, B = StepSpec("a", "load"), StepSpec("b", "report", ("a",), {"title": "old", "rows": "${steps.a}"})
SPEC = PipelineSpec("p", (A, B))
EDITS = RunEdits({"b": {"title": "new"}}, {"a": "1" * 64})


def test_what_is_stored_is_read_back() -> None:
    assert RunEdits.of_json(EDITS.to_json()) == EDITS
    assert (NO_EDITS.to_json(), RunEdits.of_json(None)) == (None, NO_EDITS)


def test_an_edited_step_differs_in_its_params_alone() -> None:
    plan = EDITS.plan(compile_plan(SPEC))
    assert plan[2].step == StepSpec("b", "report", ("a",), {"title": "new"})
    assert plan[1].step == A
    assert EDITS.steps(SPEC.by_id) == EDITS.spec(SPEC).by_id == {"a": A, "b": plan[2].step}


def test_a_plan_with_edits_forgets_what_it_knew_of_the_old_params() -> None:
    plan = compile_plan(SPEC)
    assert "a" in plan.params[2].outputs
    assert EDITS.plan(plan).params[2].outputs == {}
    assert "a" in plan.params[2].outputs


def test_without_edits_the_plan_is_that_of_the_version() -> None:
    plan = compile_plan(SPEC)
    assert NO_EDITS.plan(plan) is plan
    assert RunEdits(seen={"a": "1" * 64}).plan(plan) is plan


@pytest.mark.parametrize(
    ("params", "left"), [({"x": 1}, {"a": {"x": 1}, "b": {"title": "new"}}), (None, {"b": {"title": "new"}})]
)
def test_one_step_is_edited_at_a_time(params: Any, left: dict[str, Any]) -> None:
    assert EDITS.with_params("a", params).params == left
    assert EDITS.with_params("b", None).params == {}


def test_an_event_names_steps_and_no_value() -> None:
    assert EDITS.names == {"editedParams": ["b"], "otherInput": ["a"]}
    assert NO_EDITS.names == {}
