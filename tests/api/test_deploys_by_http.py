"""Who has which code, and removed tasks, over HTTP."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from support.factories import a_service, a_task, a_worker, register

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.security.access_tokens import READ, WORKER, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)


@pytest.fixture
def tenant() -> str:
    return f"deployed-{next(_numbers)}"


@pytest.fixture
def api(api: Api, tokens: Tokens, tenant: str) -> Api:
    api.token, api.tenant = tokens.make(READ, WRITE, WORKER, tenants=(tenant,)), tenant
    return api


@pytest.fixture
def worker(deployment: Deployment, tenant: str) -> str:
    """A live worker with the task `count`."""
    with deployment.database.transaction() as tx:
        register(tx, tenant, a_task("count", queue="gpu"), "left")
        return a_worker(tx, tenant, a_task("count", queue="gpu"))


def test_deploys_name_tasks_codes_and_workers(api: Api, worker: str) -> None:
    [found] = api.get("/api/deploys").json["deploys"]
    assert (found["taskId"], found["codeVersion"], found["isNewest"]) == ("count", 1, True)
    assert (found["workerCount"], found["workers"]) == (1, [worker])
    task = api.get("/api/tasks/count").json["task"]
    assert (task["queue"], task["workerCount"]) == ("gpu", 1)


def test_a_task_is_removed_unless_a_live_worker_has_it(api: Api, worker: str, deployment: Deployment) -> None:
    answer = api.post("/api/tasks/left/remove", {"reason": "we print no more"})
    assert (answer.status_code, answer.json["taskId"], answer.json["cancelled"]) == (200, "left", 0)
    assert api.get("/api/tasks/left").json["task"]["orphanedAt"] == answer.json["removedAt"]
    refused = api.post("/api/tasks/count/remove", {})
    assert (refused.status_code, refused.json["code"]) == (409, "CONFLICT")
    assert "live worker" in refused.json["detail"]
    with deployment.database.transaction() as tx:
        worker_processes.stop(tx, worker)
    assert api.post("/api/tasks/count/remove", {}).status_code == 200
    assert api.post("/api/tasks/nothing/remove", {}).status_code == 404


def test_nobody_but_its_workers_registers_a_service_with_live_workers(api: Api, worker: str) -> None:
    forged = a_service(a_task("count", "forged"))
    document = {
        "serviceId": "python",
        "version": "9.9",
        "tasks": [{"id": each.id, "codeHash": each.code_hash} for each in forged.tasks],
    }
    refused = api.post("/api/services", document)
    assert (refused.status_code, refused.json["code"]) == (409, "TASK_OWNED_ELSEWHERE")
    task = api.get("/api/tasks/count").json["task"]
    assert (task["codeVersion"], task["orphanedAt"]) == (1, None)
    assert api.get("/api/services/python").json["service"]["kind"] == "python"
