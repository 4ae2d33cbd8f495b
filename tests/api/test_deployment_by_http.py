"""Settings and the checkup over HTTP."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WRITE
from pipeweave.settings import Settings, explain_named

if TYPE_CHECKING:
    from conftest import Api, Tokens

# The package hands on the table of routes under this name.
route = import_module("pipeweave.api.routes.deployment")


@pytest.fixture
def owner(api: Api, tokens: Tokens) -> Api:
    return replace(api, token=tokens.make(ADMIN, tenants=("*",)))


def test_the_settings_are_those_of_the_process_without_secrets(owner: Api) -> None:
    rows = {each["name"]: each for each in owner.get("/api/config").json["settings"]}
    assert rows["PIPEWEAVE_SECRET_KEY"]["value"] == "***"
    assert "5e5e" not in str(rows) and "postgresql://" in rows["DATABASE_URL"]["value"]
    assert rows["DISPATCH_NETWORKS"] | {"about": ""} == {
        "name": "DISPATCH_NETWORKS",
        "value": "loopback",
        "source": "program",
        "about": "",
    }


def test_a_setting_says_where_it_comes_from() -> None:
    rows = {each.name: each for each in explain_named(Settings(port=4000), {"PORT": "4000", "UI": "true"})}
    assert (rows["PORT"].source, rows["UI"].source) == ("PORT", "UI")
    assert rows["LOG_LEVEL"].source == "default" and rows["BROKER_URL"].value is None
    rows = {each.name: each for each in explain_named(Settings(port=5000), {"PORT": "4000"})}
    assert (rows["PORT"].value, rows["PORT"].source) == ("5000", "program")


def test_a_checkup_says_what_was_found(owner: Api) -> None:
    answer = owner.post("/api/doctor")
    assert answer.status_code == 200
    levels = [each["level"] for each in answer.json["checks"]]
    assert answer.json["status"] in levels and {"ok", "warning", "error"} >= set(levels)
    assert "5e5e" not in answer.text


def test_checkups_run_one_at_a_time(owner: Api) -> None:
    with route._checking:
        assert owner.post("/api/doctor").status_code == 429


def test_a_checkup_ends_in_time(owner: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "DOCTOR_LIMIT_S", 0.0)
    answer = owner.post("/api/doctor").json
    assert answer["isComplete"] is False and len(answer["checks"]) == 1


@pytest.mark.parametrize("scopes", [(READ, WRITE), (ADMIN,)])
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/config"), ("POST", "/api/doctor")])
def test_they_are_for_administrators_of_every_tenant(
    api: Api, tokens: Tokens, scopes: tuple[str, ...], method: str, path: str
) -> None:
    assert replace(api, token=tokens.make(*scopes)).raw(method, path, b"{}").status_code == 403


def test_the_months_of_history_have_sizes_and_an_end(owner: Api, run_id: str) -> None:
    found = owner.get("/api/history").json
    assert found["months"] and found["retentionDays"] is None
    newest = found["months"][-1]
    assert newest["bytes"] > 0 and (newest["policy"], newest["dueAt"]) == ("kept", None)
    assert [each["month"] for each in found["months"]] == sorted(each["month"] for each in found["months"])


def test_a_sample_agrees_with_its_events_until_a_row_is_changed_by_hand(
    owner: Api, pipeline: str, deployment: Deployment
) -> None:
    # Runs of other tests may be newer, by a clock that went ahead, and wrong on purpose.
    id = ids.new_id(int((time.time() + 28 * 86_400) * 1000))
    with deployment.database.transaction() as tx:
        triggering.trigger_many(tx, VALUES, "default", pipeline, [StartRequest(pipeline, {}, id=id)])
    run_id = ids.show(ids.RUN, id)
    sample = owner.post("/api/history/verify", {"limit": 200}).json
    assert 1 <= sample["verified"] <= 200
    assert ids.read(ids.RUN, sample["oldestRunId"]) <= id
    assert run_id not in [each["runId"] for each in sample["differing"]]
    with deployment.database.transaction() as tx:
        tx.execute("UPDATE runs SET error_code = 'BY_HAND' WHERE id = :id", {"id": id})
    try:
        differing = owner.post("/api/history/verify", {"limit": 200}).json["differing"]
    finally:
        with deployment.database.transaction() as tx:
            tx.execute("UPDATE runs SET error_code = NULL WHERE id = :id", {"id": id})
    (changed,) = (each for each in differing if each["runId"] == run_id)
    assert [each["stored"] for each in changed["differences"]] == ["BY_HAND"]


def test_a_second_sample_waits_and_a_sample_has_bounds(owner: Api) -> None:
    with route._verifying:
        assert owner.post("/api/history/verify").status_code == 429
    assert owner.post("/api/history/verify", {"limit": 201}).status_code == 400


def test_history_concerns_every_tenant(api: Api, tokens: Tokens) -> None:
    admin = replace(api, token=tokens.make(ADMIN))
    assert admin.get("/api/history").status_code == 403
    assert admin.post("/api/history/verify").status_code == 403
