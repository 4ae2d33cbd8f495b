"""What the audit says of requests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pipeweave.orchestrator.security.access_tokens import ADMIN

if TYPE_CHECKING:
    from conftest import Api, Tokens


@pytest.fixture
def admin(api: Api, tokens: Tokens) -> Api:
    return replace(api, token=tokens.make(ADMIN), sent={"X-Request-Id": "req-of-the-test"})


def rows(api: Api, **query: str) -> list[dict[str, Any]]:
    answer = api.get("/api/audit", **query)
    assert answer.status_code == 200, answer.json
    return list(answer.json["entries"])


def test_a_pause_and_its_end_are_two_rows(admin: Api) -> None:
    assert admin.post("/api/tasks/count/pause", {"reason": "the printer is out of paper"}).status_code == 200
    assert admin.post("/api/tasks/count/resume").status_code == 200
    resumed, paused = rows(admin, object="count")[:2]
    assert (paused["verb"], paused["kind"], paused["reason"]) == (
        *("tasks.pause", "task"),
        "the printer is out of paper",
    )
    assert paused["before"]["pausedAt"] is None and paused["after"]["pauseReason"] == paused["reason"]
    assert (resumed["verb"], resumed["requestId"]) == ("tasks.resume", "req-of-the-test")
    assert paused["source"] == "token" and paused["actor"] == "test"


def test_a_header_gives_the_reason_where_the_body_has_none(admin: Api) -> None:
    admin.sent["X-Reason"] = "we move house"
    assert admin.put("/api/queue/limits", {"maxActiveRuns": 7}).status_code == 200
    (row, *_) = rows(admin, verb="queue.put_limits")
    assert (row["reason"], row["after"], row["given"]) == (
        "we move house",
        {"maxActiveRuns": 7},
        {"maxActiveRuns": 7},
    )
    admin.put("/api/queue/limits", {"maxActiveRuns": None})


def test_a_refused_request_has_no_row(admin: Api) -> None:
    assert admin.post("/api/tasks/no-such-task/pause").status_code == 404
    assert rows(admin, object="no-such-task") == []


def test_a_cancelled_run_has_a_row_and_a_triggered_one_has_not(admin: Api, run_id: str) -> None:
    assert rows(admin, object=run_id) == []
    assert admin.post(f"/api/runs/{run_id}/cancel", {"reason": "wrong input"}).status_code == 200
    (row,) = rows(admin, object=run_id)
    assert (row["before"]["status"], row["after"]["status"]) == ("running", "cancelled")


def test_a_change_of_many_runs_is_one_row_with_numbers(admin: Api, run_id: str) -> None:
    body = {"action": "cancel", "filter": {"pipelineId": "files"}, "reason": "all wrong"}
    before = len(rows(admin, verb="runs.change_runs"))
    assert admin.post("/api/runs/bulk", body | {"dryRun": True}).status_code == 200
    assert admin.post("/api/runs/bulk", body).status_code == 200
    found = rows(admin, verb="runs.change_runs")
    assert len(found) == before + 1
    assert found[0]["after"]["changed"] >= 1 and found[0]["given"]["filter"] == {"pipelineId": "files"}


def test_a_refused_change_of_many_says_so(admin: Api) -> None:
    answer = admin.post("/api/dlq/purge", {"before": "nonsense"})
    assert answer.status_code == 400
    # What is wrong in itself does not reach the verb.
    assert not [each for each in rows(admin, verb="dead_letters.purge") if "nonsense" in str(each["given"])]


def test_the_text_of_a_token_is_nowhere_in_the_audit(admin: Api) -> None:
    made = admin.post(
        "/api/tokens", {"name": "quiet", "scopes": ["orchestrator:read"], "tenants": ["default"]}
    )
    (row, *_) = rows(admin, verb="access.create_token")
    assert row["object"] == "quiet" and made.json["token"] not in str(row)
    assert admin.post("/api/tokens/quiet/revoke").status_code == 200
    (revoked, *_) = rows(admin, verb="access.revoke_token")
    assert revoked["object"] == "quiet" and revoked["before"]


def test_another_tenant_sees_nothing_of_it(admin: Api, neighbour: Api, tokens: Tokens) -> None:
    admin.post("/api/queue/pause", {"reason": "only ours"})
    admin.post("/api/queue/resume")
    other = replace(neighbour, token=tokens.make(ADMIN, tenants=("neighbour",)))
    assert not [each for each in rows(other) if each["tenant"] != "neighbour"]


def test_only_administrators_see_it(api: Api) -> None:
    assert api.get("/api/audit").status_code == 403


@pytest.mark.parametrize(
    ("name", "value"), [("since", "yesterday"), ("cursor", "x"), ("limit", "0"), ("a", "b")]
)
def test_a_wrong_filter_is_refused(admin: Api, name: str, value: str) -> None:
    answer = admin.get("/api/audit", **{name: value})
    assert answer.status_code == 400 and answer.json["errors"]


@pytest.mark.parametrize(
    "moment", ["1168-05-28T03:44:39+17:28", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"]
)
def test_any_time_with_any_offset_is_a_time(admin: Api, moment: str) -> None:
    assert rows(admin, since=moment) is not None
    assert rows(admin, until=moment) is not None


def exported(api: Api, **query: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    answer = api.get("/api/export/audit", **query)
    assert (answer.status_code, answer.mimetype) == (200, "application/x-ndjson"), answer.data
    lines = [json.loads(each) for each in answer.data.splitlines()]
    return [each for each in lines if "cursor" not in each], lines[-1]


def test_an_export_has_the_rows_of_the_list_oldest_first_and_goes_on_later(admin: Api) -> None:
    admin.post("/api/tasks/count/pause", {"reason": "first"})
    admin.post("/api/tasks/count/resume")
    found, end = exported(admin, object="count", verb="tasks.pause")
    listed = rows(admin, object="count", verb="tasks.pause")
    assert found == listed[::-1] and found[-1]["reason"] == "first"
    assert (end["rows"], end["isComplete"]) == (len(found), True)
    admin.post("/api/tasks/count/pause", {"reason": "second"})
    admin.post("/api/tasks/count/resume")
    (later,), _ = exported(admin, object="count", verb="tasks.pause", after=end["cursor"])
    assert later["reason"] == "second"


def test_a_cursor_of_other_filters_or_of_another_export_is_refused(admin: Api) -> None:
    _, end = exported(admin, verb="tasks.pause")
    answer = admin.get("/api/export/audit", verb="tasks.resume", after=end["cursor"])
    assert answer.status_code == 400 and "other filters" in answer.json["detail"]
    answer = admin.get("/api/export/runs", after=end["cursor"])
    assert answer.status_code == 400 and "export of audit" in answer.json["detail"]


def test_only_administrators_export_it(api: Api) -> None:
    assert api.get("/api/export/audit").status_code == 403


def test_a_verb_that_cannot_be_one_is_refused(admin: Api) -> None:
    refused = admin.get("/api/audit", verb="nonsense")
    assert refused.status_code == 400
    assert refused.json["errors"][0]["field"] == "verb"
    assert "an operation id such as tasks.pause" in refused.json["detail"]
    misspelt = admin.get("/api/audit", verb="tasks.puase")
    assert misspelt.status_code == 400 and "did you mean 'tasks.pause'?" in misspelt.json["detail"]
    assert admin.get("/api/export/audit", verb="tasks.puase").status_code == 400
    for verb in ("tasks.pause", "sessions.log_in", "token create", "db cleanup"):
        assert admin.get("/api/audit", verb=verb).status_code == 200
