"""Runs, task runs, events and the queue over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.api_samples import SPEC

from pipeweave import ids

if TYPE_CHECKING:
    from conftest import Api


def test_runs_are_listed_newest_first_with_filters(api: Api) -> None:
    # A pipeline of its own: schedules of other tests have fired at later times.
    pipeline = "listed"
    assert api.put(f"/api/pipelines/{pipeline}", SPEC).status_code == 201

    def trigger() -> str:
        return str(api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {}}).json["pipelineRunId"])

    older, newer = trigger(), trigger()
    api.post(f"/api/runs/{older}/cancel")
    listed = [each["id"] for each in api.get("/api/runs", pipelineId=pipeline).json["runs"]]
    assert listed.index(newer) < listed.index(older)
    cancelled = api.get("/api/runs", status="cancelled", pipelineId=pipeline).json["runs"]
    assert older in [each["id"] for each in cancelled]
    assert {each["status"] for each in cancelled} == {"cancelled"}
    created = api.get(f"/api/runs/{newer}").json["createdAt"]
    later = api.get("/api/runs", createdAfter=created, pipelineId=pipeline).json["runs"]
    assert [each["id"] for each in later] == [newer]
    assert api.get("/api/runs", createdAfter="2100-01-01T00:00:00+01:00").json["runs"] == []
    assert api.get("/api/runs", pipelineId="nobody").status_code == 404


def test_runs_are_found_by_what_no_index_knows(api: Api, pipeline: str) -> None:
    path = f"/api/pipelines/{pipeline}/trigger"
    found = api.post(path, {"input": {}, "metadata": {"k": "a=b", "n": 1}}).json["pipelineRunId"]
    other = api.post(path, {"input": {}, "metadata": {"k": "a"}}).json["pipelineRunId"]

    def runs(**query: Any) -> list[str]:
        answer = api.get("/api/runs", pipelineId=pipeline, **query).json
        assert answer["scanned"] >= 1
        return [each["id"] for each in answer["runs"]]

    assert runs(meta="k=a=b") == runs(meta=["n=1", "k=a=b"]) == [found]
    assert other in runs(text='"K": "A"') and found not in runs(text='"k": "a"')
    assert found in runs(taskId="count", version=1) and runs(taskId="nobody") == []
    assert runs(minMs=10**11) == []
    wrong = api.get("/api/runs", meta="k", version="0", minMs="-1", status="bad")
    assert wrong.status_code == 400
    assert {each["field"] for each in wrong.json["errors"]} >= {"meta", "version", "minMs", "status"}


def test_all_task_runs_are_listed_and_an_id_is_looked_for_alone(api: Api, run_id: str) -> None:
    listed = api.get("/api/task-runs", taskId="count", limit=1).json
    assert [each["taskId"] for each in listed["taskRuns"]] == ["count"]
    beginning = run_id.replace("prun_", "")[:20]
    assert len(api.get("/api/task-runs", idPrefix=beginning).json["taskRuns"]) >= 3
    refused = api.get("/api/task-runs", idPrefix=beginning, taskId="count", limit=101)
    assert {each["field"] for each in refused.json["errors"]} == {"taskId", "limit"}


def test_a_grid_shows_runs_by_steps_and_search_finds_them(api: Api, pipeline: str, run_id: str) -> None:
    grid = api.get(f"/api/pipelines/{pipeline}/grid", runs=2, steps=2).json
    assert [each["id"] for each in grid["steps"]] == ["list_files", "count"]
    assert all(len(each["statuses"]) == len(grid["runs"]) for each in grid["steps"])
    older = api.get(f"/api/pipelines/{pipeline}/grid", before=grid["runs"][-1]["id"]).json
    assert grid["runs"][-1]["id"] not in [each["id"] for each in older["runs"]]
    assert api.get(f"/api/pipelines/{pipeline}/grid", before="prun_x").status_code == 400
    assert api.get("/api/pipelines/nobody/grid").status_code == 404
    assert api.get("/api/search", q=run_id).json["hits"][0]["id"] == run_id
    assert {"kind": "pipeline", "id": pipeline}.items() <= api.get("/api/search", q=pipeline).json["hits"][
        0
    ].items()
    assert api.get("/api/search").status_code == 400


def test_task_runs_and_events_are_paged_and_filtered(api: Api, run_id: str) -> None:
    first = api.get(f"/api/runs/{run_id}/task-runs", limit=2).json
    rest = api.get(f"/api/runs/{run_id}/task-runs", limit=2, cursor=first["nextCursor"]).json
    steps = [each["stepId"] for page in (first, rest) for each in page["taskRuns"]]
    assert steps == ["list_files", "count", "report"]
    assert rest["nextCursor"] is None
    queued = api.get(f"/api/runs/{run_id}/task-runs", status="queued").json["taskRuns"]
    assert [each["stepId"] for each in queued] == ["list_files"]
    one_step = api.get(f"/api/runs/{run_id}/task-runs", stepId="report").json["taskRuns"]
    assert [each["status"] for each in one_step] == ["pending"]

    events = api.get(f"/api/runs/{run_id}/events").json["events"]
    assert events[0]["type"] == "run.created"
    assert [each["seq"] for each in events] == sorted(each["seq"] for each in events)
    created = api.get(f"/api/runs/{run_id}/events", type="run.created").json["events"]
    assert len(created) == 1


def test_a_run_belongs_to_the_trace_of_the_request_that_began_it(api: Api, pipeline: str) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    api.sent["traceparent"] = f"00-{trace}-00f067aa0ba902b7-01"
    triggered = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {}}).json["pipelineRunId"]
    task_run = api.post("/api/queue/task", {"taskId": "count", "input": {"path": "a"}}).json["runId"]
    api.sent["traceparent"] = "not a trace context"
    other = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {}}).json["pipelineRunId"]
    del api.sent["traceparent"]

    assert api.get(f"/api/runs/{triggered}").json["traceId"] == trace
    assert api.get(f"/api/task-runs/{task_run}").json["traceId"] == trace
    events = api.get(f"/api/runs/{triggered}/events").json["events"]
    assert {each["traceId"] for each in events} == {trace}
    assert api.get(f"/api/runs/{other}").json["traceId"] == ids.read(ids.RUN, other).hex

    api.post(f"/api/runs/{triggered}/cancel", {"reason": "enough"})
    cancelled = api.get(f"/api/runs/{triggered}/events", type="run.cancelled").json["events"][0]
    assert cancelled["actor"] == cancelled["data"]["by"] != ""


def test_the_state_of_a_run_is_one_document(api: Api, run_id: str) -> None:
    found = api.get(f"/api/runs/{run_id}/state").json
    shown = api.get(f"/api/runs/{run_id}").json
    assert [each["stepId"] for each in found["steps"].values()] == [each["id"] for each in shown["steps"]]
    for name in ("id", "tenant", "pipelineVersion", "status", "phase", "traceId", "inputsHash"):
        assert found[name] == shown[name]
    assert found["metadata"]["custom"] == shown["metadata"]
    logs = found["steps"]["list_files"]["logsRef"]
    assert api.get(logs).status_code == 200
    assert api.get(f"/api/runs/{ids.show(ids.RUN, ids.new_id(0))}/state").status_code == 404


def test_the_ledger_of_a_run_adds_up_to_its_duration(api: Api, run_id: str) -> None:
    found = api.get(f"/api/runs/{run_id}/ledger").json
    assert (found["runId"], found["isOpen"]) == (run_id, True)
    assert round(sum(each["ms"] for each in found["sums"]), 3) == found["totalMs"]
    assert api.get(f"/api/runs/{ids.show(ids.RUN, ids.new_id(0))}/ledger").status_code == 404


def test_a_standalone_task_is_cancelled_by_its_task_run(api: Api) -> None:
    task_run = api.post("/api/queue/task", {"taskId": "count", "input": {"path": "a"}}).json["runId"]
    answer = api.post(f"/api/task-runs/{task_run}/cancel", {"reason": "wrong folder"})
    assert (answer.status_code, answer.json["status"]) == (200, "cancelled")
    assert answer.json["error"]["message"] == "wrong folder"
    assert api.post(f"/api/task-runs/{task_run}/cancel").status_code == 409


def test_a_step_is_not_cancelled_without_its_run(api: Api, run_id: str) -> None:
    step = api.get(f"/api/runs/{run_id}").json["taskRuns"][0]["id"]
    answer = api.post(f"/api/task-runs/{step}/cancel")
    assert answer.status_code == 409
    assert run_id in answer.json["hint"]
    assert api.get(f"/api/runs/{run_id}").json["counts"].get("cancelled") is None


def test_a_standalone_task_is_no_run_to_cancel(api: Api) -> None:
    task_run = api.post("/api/queue/task", {"taskId": "count", "input": {"path": "a"}}).json["runId"]
    run = ids.show(ids.RUN, ids.run_id_of(ids.read(ids.TASK_RUN, task_run)))
    assert api.post(f"/api/runs/{run}/cancel").status_code == 404
    assert api.get(f"/api/task-runs/{task_run}").json["status"] == "queued"


def test_a_cancelled_run_is_final(api: Api, run_id: str) -> None:
    answer = api.post(f"/api/runs/{run_id}/cancel", {"reason": "wrong folder"})
    assert answer.status_code == 200
    assert answer.json["status"] == "cancelled"
    assert answer.json["counts"] == {"cancelled": 3}
    again = api.post(f"/api/runs/{run_id}/cancel")
    assert (again.status_code, again.json["code"]) == (409, "CONFLICT")


def test_a_task_run_is_shown_with_its_input_and_code(api: Api, run_id: str) -> None:
    task_run = api.get(f"/api/runs/{run_id}").json["taskRuns"][0]
    shown = api.get(f"/api/task-runs/{task_run['id']}").json
    assert (shown["runId"], shown["pipelineId"], shown["stepId"]) == (run_id, "files", "list_files")
    assert shown["input"] == {"folder": "/srv"}
    assert shown["attempts"] == []
    assert shown["codeChanged"] is False


def test_a_queued_task_is_known_by_its_task_run(api: Api) -> None:
    body = {"taskId": "count", "input": [1], "priority": 3, "metadata": {"by": "test"}}
    queued = api.post("/api/queue/task", body).json
    assert (queued["status"], queued["taskId"]) == ("queued", "count")
    shown = api.get(f"/api/task-runs/{queued['runId']}").json
    assert (shown["runId"], shown["pipelineId"], shown["priority"], shown["input"]) == (None, None, 3, [1])
    assert shown["metadata"] == {"by": "test"}
    listed = api.get("/api/queue/items", taskId="count", status="queued").json["items"]
    assert queued["runId"] in [each["id"] for each in listed]
    assert api.get("/api/queue/status").json["pending"] >= 1


def test_a_batch_is_queued_whole_or_not_at_all(api: Api) -> None:
    def queued() -> int:
        return len(api.get("/api/queue/items", taskId="report", limit=1000).json["items"])

    before = queued()
    wrong = api.post("/api/queue/batch", {"tasks": [{"taskId": "report"}, {"taskId": "nobody"}]})
    assert (wrong.status_code, wrong.json["errors"][0]["field"]) == (404, "tasks[1].taskId")
    assert queued() == before
    answer = api.post("/api/queue/batch", {"tasks": [{"taskId": "report", "input": n} for n in range(3)]})
    assert (answer.status_code, answer.json["queued"]) == (200, 3)
    assert len({each["runId"] for each in answer.json["results"]}) == 3
    assert queued() == before + 3


@pytest.mark.parametrize("path", ["/api/runs/{}", "/api/runs/{}/task-runs", "/api/runs/{}/events"])
def test_an_unknown_run_is_not_there(api: Api, path: str) -> None:
    answer = api.get(path.format("prun_00000000000000000000000000"))
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")


def test_every_list_ends(api: Api, run_id: str) -> None:
    lists: dict[str, str] = {
        "/api/services": "services",
        "/api/services/files/tasks": "tasks",
        "/api/tasks": "tasks",
        "/api/tasks/count/history": "history",
        "/api/pipelines": "pipelines",
        "/api/pipelines/files/versions": "versions",
        "/api/runs": "runs",
        f"/api/runs/{run_id}/task-runs": "taskRuns",
        f"/api/runs/{run_id}/events": "events",
        "/api/queue/items": "items",
    }
    for path, name in lists.items():
        query: dict[str, Any] = {"limit": 1}
        for _ in range(3):
            page = api.get(path, **query).json
            assert len(page[name]) <= 1
            if page["nextCursor"] is None:
                break
            query["cursor"] = page["nextCursor"]
        assert api.get(path, limit=1000).json["nextCursor"] is None


def test_runs_and_task_runs_are_found_by_the_beginning_of_their_ids(
    api: Api, neighbour: Api, run_id: str
) -> None:
    for beginning in (run_id, run_id[:20], run_id[5:20]):
        assert run_id in [each["id"] for each in api.get("/api/runs", idPrefix=beginning).json["runs"]]
    assert api.get("/api/runs", idPrefix="0000000000").json["runs"] == []
    step = api.get(f"/api/runs/{run_id}").json["taskRuns"][0]["id"]
    assert [each["id"] for each in api.get("/api/task-runs", idPrefix=step).json["taskRuns"]] == [step]
    assert neighbour.get("/api/task-runs", idPrefix=step).json["taskRuns"] == []
    assert neighbour.get("/api/runs", idPrefix=run_id).json["runs"] == []


def test_a_standalone_task_run_is_found_without_a_run(api: Api) -> None:
    made = api.post("/api/queue/task", {"taskId": "count", "input": {"path": "a"}}).json["runId"]
    (found,) = api.get("/api/task-runs", idPrefix=made[5:]).json["taskRuns"]
    assert (found["id"], found["runId"], found["taskId"]) == (made, None, "count")


@pytest.mark.parametrize(
    ("path", "beginning"),
    [("/api/runs", "trun_01"), ("/api/runs", "ilou"), ("/api/task-runs", "01m80ar"), ("/api/dlq", "")],
)
def test_a_beginning_of_no_id_is_refused(api: Api, path: str, beginning: str) -> None:
    answer = api.get(path, idPrefix=beginning)
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "idPrefix")


def test_a_cancelled_run_says_who_cancelled_it_and_why(api: Api, run_id: str) -> None:
    assert api.post(f"/api/runs/{run_id}/cancel", {"reason": "the wrong day"}).status_code == 200
    error = api.get(f"/api/runs/{run_id}").json["error"]
    assert error == {"code": "CANCELLED", "message": "the wrong day", "by": "test"}


def test_runs_say_what_began_them(api: Api, pipeline: str) -> None:
    by_request = {"kind": "api", "id": None, "actor": "test"}
    started = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {}}).json["pipelineRunId"]
    batch = api.post(f"/api/pipelines/{pipeline}/trigger/batch", {"runs": [{"input": {}}]}).json["runs"]
    for run_id in (started, batch[0]["pipelineRunId"]):
        assert api.get(f"/api/runs/{run_id}").json["triggeredBy"] == by_request
    task_run = api.post("/api/queue/task", {"taskId": "count", "input": {"path": "a"}}).json["runId"]
    assert api.get(f"/api/task-runs/{task_run}").json["triggeredBy"] == by_request

    listed = api.get("/api/runs", triggeredBy="api", pipelineId=pipeline).json["runs"]
    assert started in [each["id"] for each in listed]
    assert api.get("/api/runs", triggeredBy="schedule", pipelineId=pipeline).json["runs"] == []
    refused = api.get("/api/runs", triggeredBy="nobody")
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "triggeredBy")
