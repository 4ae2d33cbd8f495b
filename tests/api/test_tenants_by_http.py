"""What operators say of a tenant over HTTP: quotas, a rate of requests, and that it is disabled."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
import pytest
from flask import Flask
from support.api_samples import SERVICE, SPEC
from werkzeug.test import TestResponse

from pipeweave import ids
from pipeweave.api.http import ndjson
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import sessions
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WORKER, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens

_names = itertools.count(1)
TRIGGER = "/api/pipelines/files/trigger"
INPUT = {"input": {"folder": "/srv"}}


@pytest.fixture
def owner(api: Api, tokens: Tokens) -> Api:
    """An administrator of every tenant: an operator."""
    return replace(api, token=tokens.make(ADMIN, tenants=("*",)))


@pytest.fixture
def own(api: Api, tokens: Tokens, deployment: Deployment) -> Api:
    """May administer a tenant of its own, which has a pipeline."""
    name = f"quota-{next(_names)}"
    with deployment.database.transaction() as tx:
        service_registration.register(tx, name, SERVICE)
    made = replace(api, token=tokens.make(ADMIN, tenants=(name,)), tenant=name)
    assert made.put("/api/pipelines/files", SPEC).status_code in (200, 201)
    return made


def code(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def limits(owner: Api, own: Api, **body: object) -> TestResponse:
    return owner.put(f"/api/tenants/{own.tenant}/limits", body)


def as_new(own: Api, tokens: Tokens, *scopes: str) -> Api:
    """With a token that no process has looked at before."""
    return replace(own, token=tokens.make(*(scopes or (READ, WRITE)), tenants=(own.tenant,)))


def test_a_trigger_beyond_a_quota_answers_429_with_what_is_used_and_when_to_come_again(
    own: Api, owner: Api
) -> None:
    assert limits(owner, own, runsPerDay=1).json["runsPerDay"] == 1
    assert own.post(TRIGGER, INPUT).status_code in (200, 201, 202)
    refused = own.post(TRIGGER, INPUT)
    assert code(refused) == (429, "QUOTA_EXCEEDED")
    problem = refused.json
    assert (problem["quota"], problem["limit"], problem["used"]) == ("runsPerDay", 1, 1)
    assert problem["freesAt"].endswith("00:00:00.000Z") or "T00:00:00" in problem["freesAt"]
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    used = own.get(f"/api/tenants/{own.tenant}/limits").json["used"]
    assert (used["runsToday"], used["schedules"]) == (1, 0)


def test_the_limits_are_set_as_a_whole(own: Api, owner: Api) -> None:
    limits(owner, own, runsPerDay=5, requestRate="10/s", weight=3)
    shown = limits(owner, own, schedules=2).json
    assert (shown["runsPerDay"], shown["requestRate"], shown["weight"]) == (None, None, 1)
    assert shown["schedules"] == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"runsPerDay": -1}, "runsPerDay"),
        ({"weight": 0}, "weight"),
        ({"requestRate": "often"}, "requestRate"),
        ({"runs": 1}, "runs"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_with_its_field(
    own: Api, owner: Api, body: dict[str, object], field: str
) -> None:
    refused = limits(owner, own, **body)
    assert code(refused) == (400, "INVALID_INPUT")
    assert refused.json["errors"][0]["field"] == field


def test_a_tenant_s_own_administrator_reads_its_quotas_and_cannot_lift_them(own: Api, owner: Api) -> None:
    limits(owner, own, runsPerDay=1)
    path = f"/api/tenants/{own.tenant}"
    assert own.get(f"{path}/limits").json["runsPerDay"] == 1
    for answer in (own.put(f"{path}/limits", {}), own.post(f"{path}/enable"), own.post(f"{path}/disable")):
        assert code(answer) == (403, "FORBIDDEN")


def test_nobody_reads_the_quotas_of_another_tenant(own: Api, neighbour: Api) -> None:
    assert code(neighbour.get(f"/api/tenants/{own.tenant}/limits")) == (404, "NOT_FOUND")


def test_requests_beyond_the_rate_are_refused_and_operators_and_services_go_on(
    own: Api, owner: Api, tokens: Tokens
) -> None:
    limits(owner, own, requestRate="3/h")
    caller = as_new(own, tokens)
    answers = [caller.get("/api/pipelines") for _ in range(4)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    refused = answers[-1]
    assert (refused.json["quota"], refused.json["limit"]) == ("requestRate", "3/h")
    assert 0 < int(refused.headers["Retry-After"]) <= 1_200
    assert replace(owner, tenant=own.tenant).get("/api/pipelines").status_code == 200
    service = as_new(own, tokens, WORKER)
    assert service.post("/api/services", {}).status_code == 400


def test_a_disabled_tenant_is_refused_with_the_reason_but_operators_are_served(
    own: Api, owner: Api, tokens: Tokens
) -> None:
    shown = owner.post(f"/api/tenants/{own.tenant}/disable", {"reason": "unpaid"}).json
    assert (shown["disabledReason"], shown["disabledBy"]) == ("unpaid", "test")
    caller = as_new(own, tokens)
    for answer in (
        caller.get("/api/pipelines"),
        caller.post(TRIGGER, INPUT),
        caller.get(f"/api/tenants/{own.tenant}"),
    ):
        assert code(answer) == (403, "TENANT_DISABLED")
        assert "unpaid" in answer.json["detail"]
    operator = replace(owner, tenant=own.tenant)
    assert operator.get("/api/pipelines").status_code == 200
    assert code(operator.post(TRIGGER, INPUT)) == (403, "TENANT_DISABLED")
    assert owner.post(f"/api/tenants/{own.tenant}/enable").json["disabledAt"] is None
    assert as_new(own, tokens).post(TRIGGER, INPUT).status_code in (200, 201, 202)
    assert code(owner.post(f"/api/tenants/{own.tenant}/enable")) == (409, "CONFLICT")


def test_a_reason_that_is_too_long_is_refused_with_its_field(own: Api, owner: Api) -> None:
    path = f"/api/tenants/{own.tenant}/disable"
    refused = owner.post(path, {"reason": "x" * 501})
    assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, "reason")
    assert owner.post(path, {"reason": "x" * 500}).status_code == 200


def test_a_token_of_several_tenants_goes_on_for_those_that_are_enabled(
    own: Api, owner: Api, api: Api, tokens: Tokens
) -> None:
    owner.post(f"/api/tenants/{own.tenant}/disable")
    both = replace(api, token=tokens.make(READ, tenants=(own.tenant, api.tenant)))
    assert both.get("/api/pipelines").status_code == 200
    assert code(replace(both, tenant=own.tenant).get("/api/pipelines")) == (403, "TENANT_DISABLED")


def test_a_browser_of_a_disabled_tenant_sees_why_and_nothing_else(
    app: Flask, own: Api, owner: Api, tokens: Tokens, deployment: Deployment
) -> None:
    token = tokens.make(ADMIN, tenants=(own.tenant,))
    owner.post(f"/api/tenants/{own.tenant}/disable", {"reason": "unpaid since May"})
    with deployment.database.transaction() as tx:
        session = sessions.begin_by_token(tx, token, "test")
    assert session is not None
    browser = app.test_client()
    browser.set_cookie("pipeweave-3000", session.secret, domain="localhost")
    page = browser.get(f"/ui/{own.tenant}/runs", base_url="http://localhost:3000")
    assert page.status_code == 403
    assert "unpaid since May" in page.get_data(as_text=True)


def test_the_page_of_settings_shows_what_is_used_of_the_quotas(
    app: Flask, own: Api, owner: Api, tokens: Tokens, deployment: Deployment
) -> None:
    limits(owner, own, runsPerDay=7, requestRate="600/m", weight=3)
    own.post(TRIGGER, INPUT)
    token = tokens.make(ADMIN, tenants=(own.tenant,))
    with deployment.database.transaction() as tx:
        session = sessions.begin_by_token(tx, token, "test")
    assert session is not None
    browser = app.test_client()
    browser.set_cookie("pipeweave-3000", session.secret, domain="localhost")
    page = browser.get(f"/ui/{own.tenant}/settings", base_url="http://localhost:3000").get_data(as_text=True)
    assert "<dt>Runs a day</dt><dd>1 of 7 at most</dd>" in page
    assert "<dt>Request rate</dt><dd>600/m</dd>" in page
    assert "<dt>Weight</dt><dd>3 turns</dd>" in page


def test_an_operator_deletes_a_tenant_and_sees_how_far_it_is(own: Api, owner: Api, tokens: Tokens) -> None:
    path = f"/api/tenants/{own.tenant}"
    assert code(owner.get(f"{path}/deletion")) == (404, "NOT_FOUND")
    for _ in range(2):
        asked = owner.delete(path)
        assert (asked.status_code, asked.json["finishedAt"]) == (202, None)
    assert owner.get(f"{path}/deletion").json["requestedBy"] == "test"
    assert code(own.delete(path)) == (403, "FORBIDDEN")
    assert code(as_new(own, tokens).get("/api/pipelines")) == (403, "TENANT_DISABLED")
    assert code(owner.post(f"{path}/enable")) == (409, "CONFLICT")
    assert code(owner.delete("/api/tenants/nobody-at-all")) == (404, "NOT_FOUND")


def test_the_audit_tells_who_limited_and_disabled_a_tenant(own: Api, owner: Api) -> None:
    limits(owner, own, runsPerDay=9)
    owner.post(f"/api/tenants/{own.tenant}/disable", {"reason": "unpaid"})
    entries = replace(owner, tenant=own.tenant).get("/api/audit").json["entries"]
    by_verb = {each["verb"]: each for each in entries}
    assert by_verb["tenants.put_limits"]["after"]["runsPerDay"] == 9
    assert by_verb["tenants.disable"]["reason"] == "unpaid"
    assert by_verb["tenants.disable"]["tenant"] == own.tenant


def exported(answer: TestResponse) -> list[dict[str, Any]]:
    return [orjson.loads(each) for each in answer.data.splitlines()]


def test_an_operator_exports_a_tenant_as_lines_with_a_manifest(own: Api, owner: Api) -> None:
    run_id = own.post(TRIGGER, INPUT).json["pipelineRunId"]
    lines = exported(owner.get(f"/api/tenants/{own.tenant}/export"))
    assert lines[0]["export"]["tenant"] == own.tenant and lines[-1]["isComplete"] is True
    rows = [each for each in lines if "table" in each]
    [run] = [each["row"] for each in rows if each["table"] == "runs"]
    assert ids.show(ids.RUN, UUID(run["id"])) == run_id
    manifest = next(each["manifest"] for each in lines if "manifest" in each)
    assert sum(each["rows"] for each in manifest["tables"].values()) == len(rows)


def test_only_operators_export_a_tenant(own: Api, owner: Api) -> None:
    assert own.get(f"/api/tenants/{own.tenant}/export").status_code == 403
    assert code(owner.get("/api/tenants/nobody-here/export")) == (404, "NOT_FOUND")
    # What was refused holds no place.
    assert exported(owner.get(f"/api/tenants/{own.tenant}/export"))[-1]["isComplete"]


def test_a_process_writes_one_export_of_a_tenant_at_a_time(own: Api, owner: Api) -> None:
    assert ndjson._places_of_whole.acquire(blocking=False)
    try:
        answer = owner.get(f"/api/tenants/{own.tenant}/export")
        assert code(answer) == (429, "TOO_MANY_REQUESTS")
        assert exported(own.get("/api/export/runs"))[-1]["isComplete"]
    finally:
        ndjson._places_of_whole.release()
    assert exported(owner.get(f"/api/tenants/{own.tenant}/export"))[-1]["isComplete"]


def test_an_export_of_a_tenant_that_fails_in_the_middle_says_so(
    own: Api, owner: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ndjson, "MOST_WHOLE_S", -1.0)
    lines = exported(owner.get(f"/api/tenants/{own.tenant}/export"))
    assert lines[-1]["isComplete"] is False and not any("manifest" in each for each in lines)
