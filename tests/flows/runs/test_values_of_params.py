"""What params may name besides the input: what began the run, the run itself, and the variables."""

from __future__ import annotations

from typing import Any

from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.orchestrator.domain.triggered_by import API, TriggeredBy

VALUE = {
    "kind": "${trigger.type}",
    "actor": "${trigger.actor}",
    "net": "${trigger.payload.net}",
    "pipeline": "${run.pipeline}",
    "run": "${run.id}",
    "limit": "${variables.limit}",
    "gross": "${variables.gross + 1}",
}
DOCUMENT: dict[str, Any] = {
    "id": "named",
    "variables": {"limit": 1000, "gross": "${input.net * 2}"},
    "steps": [
        {"id": "of_task", "task": "give", "params": {"value": VALUE}},
        {"id": "of_engine", "transform": VALUE, "needs": []},
    ],
}


def test_a_task_and_the_engine_see_the_same_values(stack: LiveStack) -> None:
    run = stack.ran(DOCUMENT, {"net": 4}, triggered_by=TriggeredBy(API, actor="ann"))
    assert run.status == "completed"
    steps = stack.steps(run.id)
    assert stack.output(steps["of_task"]) == stack.output(steps["of_engine"])
    assert stack.output(steps["of_task"]) == {
        "kind": "api",
        "actor": "ann",
        "net": 4,
        "pipeline": "named",
        "run": ids.show(ids.RUN, run.id),
        "limit": 1000,
        "gross": 9,
    }


def test_what_a_function_changes_is_seen_by_no_other_call(stack: LiveStack) -> None:
    """The process that goes on with a run keeps its input and outputs for the steps that follow."""
    steps: list[dict[str, Any]] = [
        {"id": "first", "task": "give", "params": {"value": ["made"]}},
        {"id": "spoil_output", "task": "spoil", "params": {"value": "${steps.first}"}},
        {
            "id": "spoil_input",
            "task": "spoil",
            "needs": ["spoil_output"],
            "params": {"value": "${input.list}"},
        },
        {
            "id": "last",
            "task": "give",
            "needs": ["spoil_input"],
            "params": {"value": ["${steps.first}", "${input.list}"]},
        },
    ]
    run = stack.ran({"id": "spoiling", "steps": steps}, {"list": ["sent"]})
    assert run.status == "completed"
    assert stack.output(stack.steps(run.id)["last"]) == [["made"], ["sent"]]
