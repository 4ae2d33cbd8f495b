"""Statistics over HTTP: what runs and attempts came to, in the documented shapes, of one tenant."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.counted_events import fold_all
from support.run_driver import PERMANENT, RunDriver

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.queue_names import service_queue
from pipeweave.orchestrator.security.access_tokens import READ

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)


@pytest.fixture
def driver(deployment: Deployment) -> RunDriver:
    """A tenant with two runs that completed and one that failed, all of them counted."""
    driver = RunDriver(deployment.database, f"counted-{next(_numbers)}")
    driver.store({"a": [], "b": ["a"]}, id="two", tasks={"b": "limited"})
    for _ in range(2):
        driver.finish(driver.trigger("two"), "a", "b")
    driver.finish(driver.trigger("two"), "a", failure=PERMANENT)
    settle(driver)
    return driver


def settle(driver: RunDriver) -> None:
    """Others may be counting at the same time."""
    while any(fold_all(driver.database) for _ in range(2)):
        pass


@pytest.fixture
def api(api: Api, tokens: Tokens, driver: RunDriver) -> Api:
    api.token, api.tenant = tokens.make(READ, tenants=(driver.tenant,)), driver.tenant
    return api


def shown(api: Api, path: str) -> dict[str, Any]:
    answer = api.get(path)
    assert answer.status_code == 200, answer.text
    return dict(answer.json)


def day() -> str:
    now, shape = datetime.now(UTC), "%Y-%m-%dT%H:%M:%SZ"
    return f"from={now - timedelta(hours=12):{shape}}&to={now + timedelta(minutes=1):{shape}}"


def test_runs_of_a_tenant_and_of_a_pipeline_over_time(api: Api) -> None:
    for path in ("/api/stats/runs", "/api/stats/pipelines/two"):
        found = shown(api, path)
        summary = found["summary"]
        assert (summary["created"], summary["completed"], summary["failed"]) == (3, 2, 1)
        assert summary["successRate"] == pytest.approx(0.6667)
        assert summary["durationMs"]["count"] == 3
        assert 0 <= summary["durationMs"]["p50"] <= summary["durationMs"]["max"]
        assert found["bucket"] == "5m"
        assert len(found["points"]) <= 300
        assert sum(point["ended"] for point in found["points"]) == 3
    assert [each["version"] for each in found["versions"]] == [1]
    assert [each["taskId"] for each in found["tasks"]["rows"]] == ["limited", "noop"]


def test_attempts_of_a_tenant_a_task_and_a_service_over_time(api: Api) -> None:
    for path, attempts in (("", 5), ("?taskId=noop", 3), ("?serviceId=python", 5)):
        summary = shown(api, f"/api/stats/tasks{path}")["summary"]
        assert (summary["attempts"], summary["failed"], summary["deadLetters"]) == (attempts, 1, 1)
        assert summary["errors"] == {"BOOM": 1}
    assert shown(api, "/api/stats/tasks?taskId=noop")["versions"][0]["version"] == 1


def test_buckets_in_the_documented_shape(api: Api) -> None:
    found = shown(api, f"/api/statistics/system?{day()}&bucket=1h")
    assert found["summary"]["totalTaskRuns"] == 5
    assert found["summary"]["totalPipelineRuns"] == 3
    assert found["summary"]["avgSuccessRate"] == 0.8
    [bucket] = [each for each in found["buckets"] if each["taskRuns"]["count"]]
    assert bucket["taskRuns"]["byStatus"] == {"completed": 4, "failed": 1, "timeout": 0, "cancelled": 0}
    assert bucket["errors"] == {"total": 1, "byCode": {"BOOM": 1}}
    assert bucket["dlq"] == {"added": 1, "retried": 0}
    assert bucket["pipelineRuns"]["byStatus"]["failed"] == 1
    for path, tasks, runs in (("tasks/noop", 3, 0), ("services/python", 5, 0), ("pipelines/two", 0, 3)):
        summary = shown(api, f"/api/statistics/{path}?{day()}&bucket=1d")["summary"]
        assert (summary["totalTaskRuns"], summary["totalPipelineRuns"]) == (tasks, runs)


def test_what_waits_by_task(api: Api, driver: RunDriver) -> None:
    driver.trigger("two")
    driver.trigger("two")
    found = shown(api, "/api/statistics/queue")
    assert found["depth"] == {"pending": 2, "running": 0, "waiting": 0}
    assert [(each["taskId"], each["pending"]) for each in found["byTask"]] == [("noop", 2)]
    assert found["oldestPending"]["taskId"] == "noop"
    assert found["avgWaitMs"] > 0


def test_what_nobody_knows_is_not_found(api: Api) -> None:
    for path in ("stats/pipelines/thre", "stats/tasks?taskId=nop", "stats/tasks?serviceId=x"):
        answer = api.get(f"/api/{path}")
        assert answer.status_code == 404
    assert api.get(f"/api/statistics/tasks/nop?{day()}&bucket=1d").json["hint"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("stats/by-task", "taskId"),
        ("stats/by-queue", "queue"),
        ("stats/by-pipeline?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("stats/runs?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("stats/runs?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z&bucket=1m", "bucket"),
        ("stats/tasks?taskId=noop&serviceId=python", "serviceId"),
        ("statistics/system?to=2026-01-01T00:00:00Z", "from"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(api: Api, query: str, field: str) -> None:
    answer = api.get(f"/api/{query}")
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json["errors"]] == [field]


def test_rows_of_many_pipelines_and_tasks(api: Api, driver: RunDriver) -> None:
    found = shown(api, "/api/stats/by-pipeline?pipelineId=two&pipelineId=none&recent=2")
    two, none = found["pipelines"]
    assert (two["pipelineId"], two["ended"], two["failed"]) == ("two", 3, 1)
    assert two["successRate"] == pytest.approx(0.6667)
    assert sum(two["ends"]) == 3
    assert len(two["ends"]) <= 25
    assert [each["status"] for each in two["recentRuns"]] == ["failed", "completed"]
    assert (none["ended"], none["successRate"], none["recentRuns"]) == (0, None, [])
    rows = shown(api, "/api/stats/by-task?taskId=noop&taskId=limited")["tasks"]
    assert [(each["taskId"], each["attempts"]) for each in rows] == [("noop", 3), ("limited", 2)]
    assert rows[0]["perDay"] > 0


def test_what_left_queues_in_the_last_hour(api: Api, driver: RunDriver) -> None:
    [named] = [each for each in shown(api, "/api/queues")["queues"] if each["kind"] == "tasks"]
    other = f"{named['queue']}/none"
    found = shown(api, f"/api/stats/by-queue?queue={other}&queue={named['queue']}")
    assert found["bucket"] == "2m"
    assert [each["queue"] for each in found["queues"]] == [other, named["queue"]]
    nothing, all_of_it = found["queues"]
    assert (nothing["attempts"], all_of_it["attempts"]) == (0, 5)
    assert sum(all_of_it["ends"]) == 5
    assert len(nothing["ends"]) == len(all_of_it["ends"]) <= 31
    old = f"from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&queue={named['queue']}"
    assert shown(api, f"/api/stats/by-queue?{old}")["queues"][0]["attempts"] == 0


def test_the_pipelines_that_fail_most_come_first(api: Api, driver: RunDriver) -> None:
    driver.store({"a": []}, id="worse")
    driver.store({"a": []}, id="fine")
    for _ in range(2):
        driver.finish(driver.trigger("worse"), "a", failure=PERMANENT)
    driver.finish(driver.trigger("fine"), "a")
    settle(driver)
    found = shown(api, "/api/stats/by-pipeline")["pipelines"]
    assert [(each["pipelineId"], each["failed"]) for each in found] == [("worse", 2), ("two", 1)]
    assert len(shown(api, "/api/stats/by-pipeline?limit=1")["pipelines"]) == 1


def test_runs_of_one_pipeline_without_its_tasks(api: Api) -> None:
    assert shown(api, "/api/stats/runs?pipelineId=two")["summary"]["ended"] == 3
    assert api.get("/api/stats/runs?pipelineId=thre").status_code == 404


def test_another_tenant_sees_nothing_of_it(api: Api, tokens: Tokens, driver: RunDriver) -> None:
    other = RunDriver(driver.database, f"counted-{next(_numbers)}")
    api.token, api.tenant = tokens.make(READ, tenants=(other.tenant,)), other.tenant
    assert shown(api, "/api/stats/runs")["summary"]["created"] == 0
    assert api.get("/api/stats/pipelines/two").status_code == 404
    foreign = service_queue(driver.tenant, "python")
    assert shown(api, f"/api/stats/by-queue?queue={foreign}")["queues"][0]["attempts"] == 0
