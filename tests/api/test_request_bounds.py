"""What one request may write, load and wait for has a bound."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
import urllib3
from support.api_server import Server, running_api
from support.raw_clients import ANSWER_DEADLINE_S

from pipeweave.api.serve import THREADS
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.kept import stored_values
from pipeweave.size_limits import INLINE_BYTES, MAX_BATCH, MAX_BATCH_TASK_RUNS, MAX_METADATA_BYTES

if TYPE_CHECKING:
    from conftest import Api


# --- time -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(deployment.settings, tmp_path_factory.mktemp("served")) as server:
        yield server


@contextmanager
def locked(deployment: Deployment, table: str) -> Iterator[None]:
    """Nobody else writes to the table."""
    connection = psycopg2.connect(deployment.settings.database_url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        yield
    finally:
        connection.close()


def test_writes_that_wait_for_a_lock_are_given_up_and_do_not_keep_health_waiting(
    deployment: Deployment, server: Server, api: Api, pipeline: str
) -> None:
    ended = threading.Event()

    def trigger() -> urllib3.BaseHTTPResponse:
        url = f"{server.url}/api/pipelines/{pipeline}/trigger"
        return urllib3.request(
            "POST", url, json={}, headers=api.headers, retries=False, timeout=ANSWER_DEADLINE_S
        )

    def look_after_health() -> list[int]:
        """The statuses of /health, asked again and again while the writes wait."""
        statuses = []
        while not ended.is_set():
            asked = urllib3.request("GET", f"{server.url}/health", retries=False, timeout=ANSWER_DEADLINE_S)
            statuses.append(asked.status)
        return statuses

    with ThreadPoolExecutor(THREADS + 1) as clients, locked(deployment, "runs"):
        watched = clients.submit(look_after_health)
        try:
            answers = [each.result() for each in [clients.submit(trigger) for _ in range(THREADS)]]
        finally:
            ended.set()
        assert {(each.status, each.json()["code"]) for each in answers} == {(503, "BUSY")}
        assert all(each.headers["Retry-After"] for each in answers)
        # Each of the writes waited for seconds; health was answered many times meanwhile.
        assert len(watched.result()) > THREADS
        assert set(watched.result()) == {200}
    assert trigger().status == 200


# --- rows -------------------------------------------------------------------------------------------------


def test_a_batch_that_would_write_too_many_task_runs_is_refused(api: Api) -> None:
    steps = MAX_BATCH_TASK_RUNS // MAX_BATCH + 1
    document = {"steps": [{"id": f"s{number}", "task": "count", "needs": []} for number in range(steps)]}
    assert api.put("/api/pipelines/wide", document).status_code in (200, 201)
    answer = api.post("/api/pipelines/wide/trigger/batch", {"runs": [{}] * MAX_BATCH})
    assert (answer.status_code, answer.json["code"]) == (400, "LIMIT_EXCEEDED")
    assert f"at most {MAX_BATCH_TASK_RUNS // steps:,} runs" in answer.json["hint"]
    assert api.get("/api/runs", pipelineId="wide").json["runs"] == []
    assert len(api.post("/api/pipelines/wide/trigger/batch", {"runs": [{}] * 2}).json["runs"]) == 2


@pytest.mark.parametrize(
    ("path", "wrap", "field"),
    [
        ("/api/pipelines/files/trigger", lambda body: body, "metadata"),
        ("/api/pipelines/files/trigger/batch", lambda body: {"runs": [{}, body]}, "runs[1].metadata"),
        ("/api/queue/task", lambda body: {"taskId": "count", **body}, "metadata"),
    ],
)
def test_metadata_is_small(api: Api, pipeline: str, path: str, wrap: Any, field: str) -> None:
    fits = {"note": "x" * (MAX_METADATA_BYTES - len('{"note":""}'))}
    assert api.post(path, wrap({"metadata": fits})).status_code == 200
    answer = api.post(path, wrap({"metadata": {"note": fits["note"] + "x"}}))
    assert answer.status_code == 400
    (fault,) = answer.json["errors"]
    assert (fault["field"], fault["code"]) == (field, "too_big")
    assert f"at most {MAX_METADATA_BYTES:,}" in fault["message"]


# --- size of the answer -----------------------------------------------------------------------------------


def test_values_that_are_too_large_together_are_not_fetched(
    api: Api, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"input": "x" * (INLINE_BYTES + 1)}
    run_id = api.post(f"/api/pipelines/{pipeline}/trigger", given).json["pipelineRunId"]
    monkeypatch.setattr(stored_values, "MAX_LOADED_BYTES", INLINE_BYTES)
    answer = api.get(f"/api/runs/{run_id}", load="true")
    assert (answer.status_code, answer.json["code"]) == (400, "LIMIT_EXCEEDED")
    assert "without load=true" in answer.json["hint"]
    assert api.get(f"/api/runs/{run_id}").status_code == 200
