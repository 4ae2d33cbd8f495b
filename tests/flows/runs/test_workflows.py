"""DAGs of production scientific workflows with tasks that do nothing: every step once, in order."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack

FILES = sorted((Path(__file__).parents[1] / "workflows").glob("*.json"))


def spec_of(workflow: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": workflow["name"],
        "steps": [{"id": step["id"], "task": "noop", "needs": step["parents"]} for step in workflow["steps"]],
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_step_of_a_real_workflow_runs_once_and_after_its_predecessors(
    stack: LiveStack, path: Path
) -> None:
    workflow = json.loads(path.read_text())
    run = stack.ran(spec_of(workflow))
    assert run.status == "completed"

    calls = stack.calls(run.id)
    assert Counter(call.step_id for call in calls) == Counter(step["id"] for step in workflow["steps"])

    began = {call.step_id: call.began for call in calls}
    ended = {call.step_id: call.ended for call in calls}
    rows = stack.steps(run.id)
    for step in workflow["steps"]:
        for parent in step["parents"]:
            assert ended[parent] <= began[step["id"]], f"{step['id']} was called before {parent} returned"
            assert rows[parent].finished_at <= rows[step["id"]].started_at, f"{step['id']} after {parent}"
    assert {row.status for row in rows.values()} == {"completed"}
    assert run.finished_at >= max(row.finished_at for row in rows.values())
    assert stack.attempts(run.id) == []
