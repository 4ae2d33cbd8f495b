"""Maintenance and the tick, asked for by HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from support.api_samples import OTHER_TENANT, TENANT

from pipeweave import ids
from pipeweave.api import create_app
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis.health import HEALTH
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.recovery.tick import Rests
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.security.access_tokens import ADMIN, EVERY_TENANT, READ, TICK, WRITE
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database

if TYPE_CHECKING:
    from conftest import Api, Tokens

COUNTED = ("canEnterMaintenance", "pendingTasks", "runningTasks")


@pytest.fixture
def quiet(deployment: Deployment) -> Iterator[None]:
    """No run is open, and whatever the test does, everything is accepted after it."""
    with deployment.database.transaction() as tx:
        for row in tx.execute("SELECT id, tenant_id, pipeline_id FROM runs WHERE finished_at IS NULL").all():
            if row.pipeline_id is None:
                triggering.cancel_task(tx, row.tenant_id, ids.task_run_id(row.id, 1))
            else:
                triggering.cancel(tx, row.tenant_id, row.id, now=True)
    yield
    with deployment.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET mode = 'running', reason = NULL")


@pytest.fixture
def admin(api: Api, tokens: Tokens, quiet: None) -> Api:
    return replace(api, token=tokens.make(ADMIN, tenants=(EVERY_TENANT,)))


def verb(admin: Api, name: str, **body: Any) -> tuple[int, str]:
    answer = admin.post(f"/api/maintenance/{name}", body)
    return answer.status_code, answer.json.get("mode") or answer.json["maintenanceMode"]


def test_maintenance_is_requested_entered_and_left(admin: Api) -> None:
    assert verb(admin, "request", reason="new disks") == (200, "waiting_for_maintenance")
    shown = admin.get("/api/maintenance").json
    assert (shown["canEnterMaintenance"], shown["reason"], shown["blocking"]) == (True, "new disks", [])
    assert verb(admin, "enter") == (200, "maintenance")
    assert verb(admin, "enter") == (200, "maintenance")
    assert verb(admin, "request") == (200, "maintenance")
    assert verb(admin, "exit") == (200, "running")


@pytest.mark.parametrize("name", ["enter", "exit"])
def test_maintenance_that_was_not_requested_is_a_conflict(admin: Api, name: str) -> None:
    before = admin.get("/api/maintenance").json
    assert verb(admin, name) == (409, "running")
    assert admin.get("/api/maintenance").json == before


def test_an_open_run_blocks_and_its_end_brings_maintenance(admin: Api, run_id: str) -> None:
    assert verb(admin, "request") == (200, "waiting_for_maintenance")
    assert verb(admin, "enter") == (200, "waiting_for_maintenance")
    shown = admin.get("/api/maintenance").json
    assert shown["message"] == "New work is refused; maintenance mode begins when 1 unfinished run has ended."
    assert [each["id"] for each in shown["blocking"]] == [run_id]
    assert admin.post(f"/api/runs/{run_id}/cancel").status_code == 200
    assert admin.get("/api/maintenance").json["mode"] == "maintenance"


def test_runs_of_other_tenants_are_shown_to_an_administrator(admin: Api, neighbour: Api) -> None:
    registration = {"serviceId": "other", "tasks": [{"id": "other-task", "codeHash": "1" * 16}]}
    assert neighbour.post("/api/services", registration).status_code == 200
    task_run_id = neighbour.post("/api/queue/task", {"taskId": "other-task"}).json["runId"]
    (shown,) = admin.get("/api/maintenance").json["blocking"]
    assert (shown["tenant"], shown["pipelineId"], shown["taskId"]) == (OTHER_TENANT, None, "other-task")
    assert shown["id"] == task_run_id


def health_with(app: Flask, token: str | None) -> dict[str, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = app.test_client().get("/health", headers=headers)
    assert answer.status_code == 200
    shown: dict[str, Any] = answer.json
    return shown


def test_health_says_the_mode_to_everyone_and_neither_counts_nor_reasons(
    admin: Api, app: Flask, tokens: Tokens
) -> None:
    verb(admin, "request", reason="new disks")
    shown = admin.get("/api/maintenance").json
    for token in (None, "pw_unknown", tokens.make(ADMIN), tokens.make(TICK, tenants=(EVERY_TENANT,))):
        health = health_with(app, token)
        members = ("mode", "modeChangedAt")
        assert [health["maintenance"][name] for name in members] == [shown[name] for name in members]
        assert health["maintenance"]["reason"] is None
        assert not {*COUNTED} & {*health, *health["maintenance"]}
        assert (health["maintenanceMode"], health["canAcceptTasks"]) == (shown["mode"], False)


def test_health_counts_for_who_may_read_every_tenant(
    admin: Api, app: Flask, tokens: Tokens, run_id: str
) -> None:
    verb(admin, "request", reason="new disks")
    shown = admin.get("/api/maintenance").json
    health = health_with(app, tokens.make(READ, tenants=(EVERY_TENANT,)))
    members = ("reason", *COUNTED)
    assert [health["maintenance"][name] for name in members] == [shown[name] for name in members]
    assert health["maintenance"]["pendingTasks"] > 0
    assert health["runningTasks"] == shown["runningTasks"]


def test_a_refused_caller_is_told_the_reason_of_the_maintenance(admin: Api, pipeline: str) -> None:
    verb(admin, "request", reason="new disks")
    for path, body in (
        (f"/api/pipelines/{pipeline}/trigger", {"input": {}}),
        (f"/api/pipelines/{pipeline}/trigger/batch", {"runs": [{}]}),
        ("/api/queue/task", {"taskId": "count"}),
    ):
        answer = admin.post(path, body)
        assert (answer.status_code, answer.json["maintenanceMode"]) == (503, "waiting_for_maintenance")
        assert answer.json["detail"].endswith("new disks")


@pytest.mark.parametrize("scope", [READ, WRITE, TICK])
def test_only_an_administrator_may_ask(app: Flask, api: Api, tokens: Tokens, quiet: None, scope: str) -> None:
    caller = replace(api, token=tokens.make(scope))
    assert caller.get("/api/maintenance").status_code == 403
    for name in ("request", "enter", "exit"):
        assert caller.post(f"/api/maintenance/{name}").status_code == 403


def test_a_token_of_some_tenants_cannot_stop_the_others(
    app: Flask, api: Api, tokens: Tokens, quiet: None
) -> None:
    caller = replace(api, token=tokens.make(ADMIN, tenants=(TENANT, OTHER_TENANT)))
    for answer in (
        caller.get("/api/maintenance"),
        *(caller.post(f"/api/maintenance/{each}") for each in ("request", "enter", "exit")),
    ):
        assert (answer.status_code, answer.json["neededTenants"]) == (403, "*")
        assert "--tenant '*' --scope admin" in answer.json["hint"]
    assert caller.get("/health").json["maintenanceMode"] == "running"


# --- the tick ---------------------------------------------------------------------------------------------


@pytest.fixture
def clock(api: Api, tokens: Tokens, quiet: None) -> Api:
    """May do nothing but tick."""
    return replace(api, token=tokens.make(TICK))


def make_late(deployment: Deployment, run_id: str) -> None:
    """The messages of a run were lost an hour ago: nobody consumes the queue, so it is emptied. What other
    tests of this process have left in a queue has just come there.
    """
    deployment.publisher.app.control.purge()
    backend: Any = deployment.publisher.app.backend
    backend.client.flushdb()
    with deployment.database.transaction() as tx:
        tx.execute(
            """UPDATE task_runs SET queued_at = CASE WHEN run_id = :run_id THEN queued_at - INTERVAL '1 hour'
                ELSE now() END WHERE status = 'queued'""",
            {"run_id": ids.read(ids.RUN, run_id)},
        )


def test_a_tick_heals_what_was_lost_and_says_so(clock: Api, run_id: str, deployment: Deployment) -> None:
    make_late(deployment, run_id)
    answer = clock.post("/api/tick")
    assert answer.status_code == 200
    # Other tests of this process may have left work for other chores.
    assert (answer.json["status"], answer.json["did"]["republished"]) == ("ok", 1)
    assert answer.json["processed"] == sum(answer.json["did"].values())
    assert clock.post("/api/tick").json["did"]["republished"] == 0


def test_of_two_ticks_at_once_one_says_that_another_is_under_way(
    clock: Api, run_id: str, deployment: Deployment
) -> None:
    make_late(deployment, run_id)
    with leases.held(deployment.database, leases.TICK, timedelta(minutes=1)):
        answer = clock.post("/api/tick").json
    assert (answer["processed"], answer["message"]) == (0, "Another tick is under way.")
    assert clock.post("/api/tick").json["did"]["republished"] == 1


def test_a_tick_needs_no_more_than_the_one_connection_of_a_small_pool(
    clock: Api, run_id: str, deployment: Deployment
) -> None:
    make_late(deployment, run_id)
    small = Deployment.open(replace(deployment.settings, db_pool_max=1))
    try:
        answer = replace(clock, http=create_app(small.settings, small).test_client()).post("/api/tick")
    finally:
        small.close()
    assert (answer.status_code, answer.json["did"]["republished"]) == (200, 1)


def test_a_tick_does_nothing_during_maintenance(
    clock: Api, run_id: str, deployment: Deployment, tokens: Tokens
) -> None:
    make_late(deployment, run_id)
    with deployment.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET mode = 'maintenance'")
    answer = clock.post("/api/tick")
    assert (answer.status_code, answer.json["processed"]) == (200, 0)
    assert answer.json["message"] == "Nothing is done during maintenance."


def test_a_tick_heals_while_maintenance_is_waited_for(
    clock: Api, run_id: str, deployment: Deployment
) -> None:
    make_late(deployment, run_id)
    with deployment.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET mode = 'waiting_for_maintenance'")
    assert clock.post("/api/tick").json["did"]["republished"] == 1


def test_the_tick_needs_its_scope_which_lets_one_do_nothing_else(
    clock: Api, api: Api, tokens: Tokens
) -> None:
    assert api.post("/api/tick").status_code == 403
    assert clock.get("/api/runs").status_code == 403


def test_an_administrator_of_one_tenant_does_not_run_the_tick_of_all(api: Api, tokens: Tokens) -> None:
    for tenants, status in (((TENANT,), 403), ((EVERY_TENANT,), 200)):
        token = tokens.make(ADMIN, tenants=tenants)
        assert replace(api, token=token).post("/api/tick").status_code == status


def test_health_misses_the_tick(clock: Api, deployment: Deployment) -> None:
    clock.post("/api/tick")
    health = clock.get("/health").json
    assert (health["status"], health["degraded"]) == ("ok", None)
    assert health["lastTickAt"] is not None
    with deployment.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET last_tick_at = now() - :age", {"age": timedelta(minutes=2)})
    answer = clock.get("/health")
    assert (answer.status_code, answer.json["status"]) == (200, "degraded")
    assert answer.json["degraded"].startswith("the last tick was 12")


def test_health_does_not_wait_for_those_who_download_from_storage(app: Flask, deployment: Deployment) -> None:
    """Each of them holds a connection that reads."""
    with ExitStack() as stack:
        for _ in range(max(1, deployment.settings.db_pool_max // 2)):
            stack.enter_context(deployment.database.reading())
        assert app.test_client().get("/health").status_code == 200


def test_health_does_not_wait_for_a_tick_in_the_same_process(app: Flask, deployment: Deployment) -> None:
    with deployment.database.impatient().transaction() as tx:
        assert tx.execute("SELECT 1").scalar_one() == 1
        assert app.test_client().get("/health").status_code == 200


def test_health_reads_no_rows_of_runs(deployment: Deployment) -> None:
    """Its cost does not grow with the queue."""
    with deployment.database.transaction() as tx:
        [plan] = tx.execute(f"EXPLAIN (FORMAT JSON) {HEALTH}").scalar_one()
    assert relations(plan["Plan"]) == {"orchestrator_state", "tick_chores"}


def relations(plan: dict[str, Any]) -> set[str]:
    mine = {plan["Relation Name"]} if "Relation Name" in plan else set()
    return mine.union(*(relations(part) for part in plan.get("Plans", [])))


def test_health_names_chores_that_fail_again_and_again(
    clock: Api, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(database: Database, policy: Policy) -> int:
        raise Unavailable("storage at 10.0.0.7 is away")

    # A chore that looks for itself when it does not rest: others are not called when they have nothing to do.
    deployment.database.caches.own(Rests).clear()
    monkeypatch.setattr(expiry, "purge_batch", broken)
    for _ in range(tick_status.REPEATED):
        answer = clock.post("/api/tick")
    assert (answer.status_code, answer.json["failedChores"]) == (200, ["expiry"])
    assert answer.json["message"].endswith("Some chores failed: expiry.")
    health = clock.get("/health")
    assert (health.status_code, health.json["status"]) == (200, "degraded")
    assert health.json["failingChores"] == ["expiry"]
    assert b"10.0.0.7" not in health.data
    monkeypatch.undo()
    clock.post("/api/tick")
    assert clock.get("/health").json["status"] == "ok"


def test_a_late_tick_of_a_serverless_deployment_is_healthy(deployment: Deployment, quiet: None) -> None:
    settings = replace(deployment.settings, mode="serverless")
    client = create_app(settings, replace(deployment, settings=settings)).test_client()
    with deployment.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET last_tick_at = now() - interval '1 day'")
    assert client.get("/health").json["status"] == "ok"
