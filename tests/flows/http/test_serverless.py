"""A serverless deployment: the API runs, a scheduler calls its tick, and nothing else is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import urllib3
from support.api_server import Server, running_api
from support.http_service import http_service
from support.live_stack import LiveStack, StackMaker

from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import TICK, WORKER, WRITE


@pytest.fixture(scope="module")
def alone(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack without any process."""
    with make_stack(tmp_path_factory.mktemp("serverless")) as own:
        yield own


@pytest.fixture(scope="module")
def api(alone: LiveStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = replace(alone.settings, mode="serverless", broker_url=None, max_concurrency=4)
    with running_api(settings, tmp_path_factory.mktemp("serverless-api")) as server:
        yield server


@pytest.fixture(scope="module")
def url(alone: LiveStack, api: Server) -> str:
    with alone.deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="all", tenants=["*"], scopes=[WORKER, WRITE, TICK])
    return f"{api.url}/w/{alone.settings.tenant}/{token}"


def tick(url: str) -> int:
    """Call the tick as a scheduler does that knows only a URL; how much it dispatched."""
    answer = urllib3.request("POST", f"{url}/api/tick", retries=False, timeout=60)
    assert answer.status == 200, answer.data
    return int(answer.json()["did"]["dispatched"])


def trigger(url: str, api: Server, pipeline: str, body: object) -> str:
    tenant, token = url.split("/")[-2:]
    headers = {"Authorization": f"Bearer {token}", "X-Tenant": tenant}
    answer = urllib3.request(
        "POST",
        f"{api.url}/api/pipelines/{pipeline}/trigger",
        json={"input": body},
        headers=headers,
        retries=False,
    )
    assert answer.status == 200, answer.data
    return str(answer.json()["pipelineRunId"])


def test_ticks_alone_bring_a_run_to_its_end(
    alone: LiveStack, api: Server, url: str, secret: str, tmp_path: Path
) -> None:
    tasks = {
        "split": lambda dispatch: list(range(dispatch.input)),
        "part": lambda dispatch: dispatch.input * 2,
        "join": lambda dispatch: sum(dispatch.upstream["parts"]),
    }
    steps = [
        {"id": "split", "task": "split"},
        {"id": "parts", "task": "part", "map": "${steps.split}"},
        {"id": "join", "task": "join"},
    ]
    with http_service(url, secret, tasks, service_id="serverless") as service:
        assert service.register()[0] == 200
        alone.store({"id": "serverless", "steps": steps})
        trigger(url, api, "serverless", 10)
        [run] = alone.rows("SELECT * FROM runs")
        most = 0

        def is_over() -> bool:
            nonlocal most
            most = max(most, tick(url))
            return bool(alone.run(run.id).status == "completed")

        alone.until(is_over, "the run did not end")
    assert alone.steps(run.id)["join"].output == 90
    assert most == 4, "MAX_CONCURRENCY bounds what one call dispatches"


def test_the_path_of_a_scheduler_reaches_the_tick_and_not_the_runs(url: str) -> None:
    assert tick(url) == 0
    answer = urllib3.request("GET", f"{url}/api/runs", retries=False)
    assert (answer.status, answer.json()["code"]) == (404, "NOT_FOUND")
    wrong = url.rpartition("/")[0] + "/pw_wrong"
    assert urllib3.request("POST", f"{wrong}/api/tick", retries=False).status == 401


def test_no_log_line_holds_the_token_of_a_path(url: str, api: Server) -> None:
    tick(url)
    assert url.rpartition("/")[2] not in api.log.read_text()
