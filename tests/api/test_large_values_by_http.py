"""Values over 32 KiB live in storage; an answer says where, or fetches them when asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeweave.size_limits import INLINE_BYTES

if TYPE_CHECKING:
    from conftest import Api

LARGE = {"text": "x" * (INLINE_BYTES + 1)}


def test_a_large_input_is_shown_by_where_it_is_unless_it_is_asked_for(api: Api, pipeline: str) -> None:
    run_id = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": LARGE}).json["pipelineRunId"]

    shown = api.get(f"/api/runs/{run_id}").json
    assert shown["input"] is None
    assert shown["inputRef"]["size"] > INLINE_BYTES
    assert api.get(f"/api/runs/{run_id}", load="true").json["input"] == LARGE

    task_run = shown["taskRuns"][0]["id"]
    assert api.get(f"/api/task-runs/{task_run}").json["input"] is None
    assert api.get(f"/api/task-runs/{task_run}", load="true").json["input"] == LARGE


def test_a_truth_value_is_true_or_false(api: Api, pipeline: str) -> None:
    run_id = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": 1}).json["pipelineRunId"]
    refused = api.get(f"/api/runs/{run_id}", load="yes")
    assert refused.status_code == 400
    assert refused.json["errors"][0]["field"] == "load"
