"""What can be asked about a run by HTTP: attempts, comparison, verification, why; and the search of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeweave import ids

if TYPE_CHECKING:
    from conftest import Api


def another(api: Api, pipeline: str) -> str:
    answer = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {"folder": "/tmp"}})
    return str(answer.json["pipelineRunId"])


def test_a_run_comes_without_its_task_runs_if_wanted(api: Api, run_id: str) -> None:
    whole = api.get(f"/api/runs/{run_id}").json
    header = api.get(f"/api/runs/{run_id}", taskRuns=0).json
    assert header["taskRuns"] == []
    for name in ("counts", "steps", "status", "output"):
        assert header[name] == whole[name]
    rest = api.get(f"/api/runs/{run_id}/task-runs", cursor=header["taskRunsCursor"]).json
    assert rest["taskRuns"] == whole["taskRuns"]
    some = api.get(f"/api/runs/{run_id}", taskRuns=2).json
    assert len(some["taskRuns"]) == 2
    assert some["steps"] == whole["steps"]
    refused = api.get(f"/api/runs/{run_id}", taskRuns=1001)
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "taskRuns")


def test_attempts_are_listed_by_their_run(api: Api, neighbour: Api, run_id: str) -> None:
    assert api.get(f"/api/runs/{run_id}/attempts").json == {"attempts": [], "nextCursor": None}
    refused = api.get(f"/api/runs/{run_id}/attempts", status="queued")
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "status")
    assert neighbour.get(f"/api/runs/{run_id}/attempts").status_code == 404


def test_two_runs_are_compared(api: Api, neighbour: Api, pipeline: str, run_id: str) -> None:
    other = another(api, pipeline)
    found = api.get(f"/api/runs/{run_id}/compare/{other}").json
    assert (found["left"]["id"], found["right"]["id"]) == (run_id, other)
    assert found["input"]["differences"] == [
        {"path": ".folder", "change": "changed", "left": "/srv", "right": "/tmp", "isCut": False}
    ]
    assert len(found["steps"]) == 3
    assert len(api.get(f"/api/runs/{run_id}/compare/{other}", limit=1).json["steps"]) == 1
    gone = ids.show(ids.RUN, ids.new_id(0))
    assert api.get(f"/api/runs/{run_id}/compare/{gone}").status_code == 404
    assert neighbour.get(f"/api/runs/{run_id}/compare/{other}").status_code == 404


def test_runs_of_two_pipelines_lead_to_runs_that_can_be_compared(
    api: Api, pipeline: str, run_id: str
) -> None:
    other = another(api, pipeline)
    api.put("/api/pipelines/of-another", {"steps": [{"task": "list_files"}]})
    alone = another(api, "of-another")
    screen = api.get(f"/ui/{api.tenant}/compare/{run_id}/{alone}")
    assert (screen.status_code, "Two runs of different pipelines" in screen.text) == (200, True)
    assert f'/compare/{"/".join(sorted((run_id, other)))}"' in screen.text
    assert "It has no other run yet." in screen.text


def test_checkpoints_are_shown_with_the_state_of_then(api: Api, neighbour: Api, run_id: str) -> None:
    [created] = api.get(f"/api/runs/{run_id}/checkpoints").json["checkpoints"]
    assert (created["runId"], created["event"]) == (run_id, "run.created")
    shown = api.get(created["href"]).json
    assert shown["state"] == api.get(f"/api/runs/{run_id}/at", seq=created["seq"]).json
    assert {name: shown[name] for name in created} == created
    for wrong in ("0", "first", "9" * 30):
        assert api.get(f"/api/runs/{run_id}/checkpoints/{wrong}").status_code == 404
    assert neighbour.get(created["href"]).status_code == 404
    assert neighbour.get(f"/api/runs/{run_id}/checkpoints").status_code == 404


def test_changes_of_the_state_are_events_by_another_name(api: Api, run_id: str) -> None:
    events = api.get(f"/api/runs/{run_id}/events").json["events"]
    changes = api.get(f"/api/runs/{run_id}/events", type="state_updated").json["events"]
    assert [each["data"]["event"] for each in changes] == [each["type"] for each in events]
    assert api.get(changes[0]["data"]["stateSnapshot"]).json["seq"] == changes[0]["seq"]
    assert api.get(f"/api/runs/{run_id}/events", type="state").status_code == 400


def test_a_run_is_verified_by_who_may_read(reader: Api, neighbour: Api, run_id: str) -> None:
    found = reader.post(f"/api/runs/{run_id}/verify").json
    assert (found["runId"], found["isEqual"], found["differences"]) == (run_id, True, [])
    assert reader.post(f"/api/runs/{run_id}/verify", {"repair": True}).status_code == 400
    assert neighbour.post(f"/api/runs/{run_id}/verify").status_code == 404


def test_a_run_says_what_it_waits_for(reader: Api, neighbour: Api, run_id: str) -> None:
    found = reader.get(f"/api/runs/{run_id}/why").json
    assert (found["open"], found["waiting"]) == (3, 3)
    assert "predecessors" in found["summary"]
    assert sum(each["count"] for each in found["reasons"]) == 3
    assert neighbour.get(f"/api/runs/{run_id}/why").status_code == 404


def test_a_search_of_a_log_stands_alone(api: Api, run_id: str) -> None:
    task_run = api.get(f"/api/runs/{run_id}").json["taskRuns"][0]["id"]
    found = api.get(f"/api/task-runs/{task_run}/logs", find="x").json
    assert (found["logs"], found["lineNumbers"], found["isComplete"]) == ([], [], True)
    assert api.get(f"/api/task-runs/{task_run}/logs").json["lineNumbers"] is None
    refused = api.get(f"/api/task-runs/{task_run}/logs", find="x", offset=1, tail=2)
    assert [each["field"] for each in refused.json["errors"]] == ["tail", "find"]
    assert api.get(f"/api/task-runs/{task_run}/logs", find="").status_code == 400


def test_a_run_is_shown_as_it_was_at_an_event(reader: Api, run_id: str) -> None:
    first = reader.get(f"/api/runs/{run_id}/events").json["events"][0]["seq"]
    found = reader.get(f"/api/runs/{run_id}/at", seq=first).json
    assert (found["status"], found["events"], found["counts"]) == ("running", 1, {"pending": 3})
    assert reader.get(f"/api/runs/{run_id}/at").status_code == 400
    assert reader.get(f"/api/runs/{run_id}/at", seq=-1).status_code == 400


def test_events_and_items_are_found_by_what_they_are_about(api: Api, run_id: str) -> None:
    step = api.get(f"/api/runs/{run_id}").json["taskRuns"][0]["id"]
    found = api.get(f"/api/runs/{run_id}/events", taskRunId=step).json["events"]
    assert {each["taskRunId"] for each in found} <= {step}
    assert api.get(f"/api/runs/{run_id}/events", taskRunId="x").status_code == 400
    assert api.get(f"/api/runs/{run_id}/task-runs", stepId="count", mapIndex=0).json["taskRuns"] == []


def test_the_end_of_a_run_is_forecast_once_a_run_has_completed(api: Api, neighbour: Api, run_id: str) -> None:
    found = api.get(f"/api/runs/{run_id}/forecast").json
    assert (found["id"], found["leftMs"], found["endsAt"], found["runs"]) == (run_id, None, None, 0)
    assert neighbour.get(f"/api/runs/{run_id}/forecast").status_code == 404
