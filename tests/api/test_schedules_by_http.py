"""Schedules over HTTP: stored, shown, changed, started, and every mistake named."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from support.api_samples import SERVICE, SPEC

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.spec.document import parse_spec

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)


@pytest.fixture
def api(api: Api, tokens: Tokens, deployment: Deployment) -> Api:
    """May read and write in a tenant of its own."""
    api.tenant = f"scheduled-{next(_numbers)}"
    api.token = tokens.make(READ, WRITE, tenants=(api.tenant,))
    with deployment.database.transaction() as tx:
        service_registration.register(tx, api.tenant, SERVICE)
        pipelines.store(tx, api.tenant, parse_spec(SPEC, id="files"), source="api")
    return api


def put(api: Api, id: str = "nightly", **body: Any) -> Any:
    return api.put(f"/api/schedules/{id}", {"pipelineId": "files", "cron": "30 2 * * *", **body})


def test_a_schedule_is_stored_shown_and_deleted(api: Api) -> None:
    stored = put(api, timeZone="Europe/Berlin", input={"folder": "/srv"}, jitterMs=5_000)
    assert stored.status_code == 201
    assert put(api, timeZone="Europe/Berlin").status_code == 200
    found = api.get("/api/schedules/nightly").json
    assert (found["cron"], found["paused"], found["source"]) == ("30 2 * * *", False, "api")
    assert (len(found["nextFires"]), found["lastFires"], found["lastError"]) == (5, [], None)
    assert [each["id"] for each in api.get("/api/schedules?pipelineId=files").json["schedules"]] == [
        "nightly"
    ]
    assert api.delete("/api/schedules/nightly").json == {"id": "nightly", "deleted": True}
    assert api.get("/api/schedules/nightly").status_code == 404


def test_schedules_are_listed_page_by_page(api: Api) -> None:
    for name in ("c", "a", "b"):
        put(api, name)
    first = api.get("/api/schedules?limit=2").json
    assert [each["id"] for each in first["schedules"]] == ["a", "b"]
    second = api.get(f"/api/schedules?limit=2&cursor={first['nextCursor']}").json
    assert ([each["id"] for each in second["schedules"]], second["nextCursor"]) == (["c"], None)


def test_all_mistakes_are_named_at_once_and_nothing_is_stored(api: Api) -> None:
    wrong = put(api, cron="61 * * * *", timeZone="Mars/Base", missedPolicy="some", jitterMs=-1, startAt="now")
    assert wrong.status_code == 400
    fields = {each["field"] for each in wrong.json["errors"]}
    assert fields == {"cron", "timeZone", "missedPolicy", "jitterMs", "startAt"}
    assert api.get("/api/schedules/nightly").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"everyMs": 5_000},
        {"cron": None},
        {"cron": "0 0 * * *", "startAt": "2030-01-01T00:00:00Z", "endAt": "2029-01-01T00:00:00Z"},
        {"cron": None, "at": "2020-01-01T00:00:00Z"},
        {"cron": None, "at": "0001-01-01T00:00:00Z"},
        {"cron": "* " * 60},
        {"input": "x" * 40_000},
    ],
)
def test_what_cannot_be_is_refused(api: Api, body: dict[str, Any]) -> None:
    assert put(api, **body).status_code == 400


def test_it_is_paused_resumed_and_started(api: Api) -> None:
    put(api)
    assert api.post("/api/schedules/nightly/pause", {}).json["paused"] is True
    assert put(api).json["paused"] is True
    assert api.post("/api/schedules/nightly/resume", {}).json["nextFireAt"] is not None
    started = api.post("/api/schedules/nightly/fire", {})
    assert started.status_code == 200
    assert api.get(f"/api/runs/{started.json['pipelineRunId']}").json["pipelineId"] == "files"
    (fire,) = api.get("/api/schedules/nightly").json["lastFires"]
    assert (fire["kind"], fire["runId"]) == ("manual", started.json["pipelineRunId"])
    assert api.post("/api/schedules/nightli/fire", {}).json["hint"] == "did you mean 'nightly'?"


def test_the_list_has_the_last_fires_of_each_if_they_are_asked_for(api: Api) -> None:
    for name in ("nightly", "daily"):
        put(api, name)
    for _ in range(2):
        api.post("/api/schedules/nightly/fire", {})
    newest = api.get("/api/schedules/nightly").json["lastFires"][0]
    daily, nightly = api.get("/api/schedules?recent=1&limit=100").json["schedules"]
    assert (daily["lastFires"], nightly["lastFires"]) == ([], [newest])
    assert [each["lastFires"] for each in api.get("/api/schedules").json["schedules"]] == [[], []]
    for wrong, field in (("recent=1&limit=101", "limit"), ("recent=21", "recent")):
        answer = api.get(f"/api/schedules?{wrong}")
        assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, field)


def test_the_past_is_made_up_for(api: Api) -> None:
    put(api)
    week = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-08T00:00:00Z"}
    dry = api.post("/api/schedules/nightly/backfill", {**week, "dryRun": True}).json
    assert (len(dry["times"]), dry["created"], dry["times"][0]) == (7, 0, "2026-01-01T02:30:00.000Z")
    done = api.post("/api/schedules/nightly/backfill", {**week, "limit": 4}).json
    assert (done["created"], done["nextFrom"]) == (4, "2026-01-05T02:30:00.000Z")
    rest = api.post("/api/schedules/nightly/backfill", week).json
    assert (rest["created"], rest["known"], rest["nextFrom"]) == (3, 4, None)
    assert (
        api.post("/api/schedules/nightly/backfill", {**week, "to": "2999-01-01T00:00:00Z"}).status_code == 400
    )


def test_a_preview_shows_times_and_says_the_line_in_words(api: Api) -> None:
    found = api.post("/api/schedules/preview", {"cron": "@daily"}).json
    assert (len(found["nextFires"]), found["text"]) == (5, "At 00:00 every day")
    assert api.post("/api/schedules/preview", {"everyMs": 1_000}).json["text"] is None


def test_an_imported_schedule_is_its_importers_until_somebody_changes_it(api: Api) -> None:
    body = {"pipelineId": "files", "cron": "0 0 1 1 *"}
    path = "/api/schedules/celery:imported"
    assert api.put(path, {**body, "source": "celery"}).json["source"] == "celery"
    assert api.put(path, body).json["source"] == "api"
    assert api.put(path, {**body, "source": "code"}).status_code == 400


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"timeZone": "Mars"}, {"timeZone", ""}),
        ({"cron": "* *", "everyMs": 5_000}, {"cron", ""}),
        ({"startAt": "2030-01-02T00:00:00Z", "endAt": "2030-01-01T00:00:00Z", "cron": "x"}, {"cron", ""}),
        ({"cron": "* * * * *", "startAt": "soon", "endAt": 5}, {"startAt", "endAt"}),
    ],
)
def test_mistakes_between_fields_are_named_with_those_of_single_ones(
    api: Api, given: dict[str, Any], fields: set[str]
) -> None:
    answer = api.put("/api/schedules/wrong", {"pipelineId": "files", **given})
    assert answer.status_code == 400
    found = [(each["field"], each["message"]) for each in answer.json["errors"]]
    assert {field for field, _ in found} == fields
    assert len(set(found)) == len(found)


def test_a_start_that_is_sent_twice_with_its_key_starts_one_run(api: Api) -> None:
    put(api, id="keyed", cron="0 0 1 1 *")
    keyed = replace(api, sent={"Idempotency-Key": f"fire {uuid4()}"})
    first = keyed.post("/api/schedules/keyed/fire", {}).json
    again = keyed.post("/api/schedules/keyed/fire", {}).json
    assert first["created"] is True
    assert again == first | {"created": False}
    assert len(api.get("/api/schedules/keyed").json["lastFires"]) == 1
    other = replace(api, sent={"Idempotency-Key": "k" * 200}).post("/api/schedules/keyed/fire", {}).json
    assert other["created"]
    assert other["pipelineRunId"] != first["pipelineRunId"]


# --- the calendar -----------------------------------------------------------------------------------------


def test_a_calendar_tells_what_came_and_what_is_ahead(api: Api) -> None:
    put(api)
    put(api, "off", paused=True)
    put(api, "often", cron=None, everyMs=60_000)
    begin = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=7)
    window = {"from": (begin - timedelta(days=1)).isoformat(), "to": begin.isoformat()}
    assert api.post("/api/schedules/nightly/backfill", window).json["created"] == 1
    found = api.get(
        "/api/schedule-calendar", **{**window, "to": (begin + timedelta(days=14)).isoformat()}
    ).json
    behind = [each for each in found["fires"] if each["outcome"] is not None]
    ahead = [each for each in found["fires"] if each["outcome"] is None]
    assert [(each["scheduleId"], each["outcome"]) for each in behind] == [("nightly", "fired")]
    assert behind[0]["runId"].startswith("prun_")
    assert {each["scheduleId"] for each in ahead} == {"nightly"}
    assert len(ahead) in (6, 7)
    assert [each["at"] for each in found["fires"]] == sorted(each["at"] for each in found["fires"])
    assert [(each["scheduleId"], each["everyMs"]) for each in found["often"]] == [("often", 60_000)]
    assert (found["paused"], found["isCapped"]) == (["off"], False)


def test_a_calendar_is_of_one_tenant_and_if_wanted_of_one_pipeline(api: Api, tokens: Tokens) -> None:
    put(api)
    assert len(api.get("/api/schedule-calendar").json["fires"]) == 7
    assert api.get("/api/schedule-calendar", pipelineId="others").json["fires"] == []
    stranger = replace(api, tenant="stranger", token=tokens.make(READ, tenants=("stranger",)))
    assert stranger.get("/api/schedule-calendar").json["fires"] == []


@pytest.mark.parametrize(
    "window",
    [
        {"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
        {"from": "2026-01-01T00:00:00Z", "to": "2026-03-01T00:00:00Z"},
        {"from": "9999-12-31T23:00:00Z"},
        {"from": "never"},
    ],
)
def test_a_calendar_of_no_time_or_too_much_is_refused(api: Api, window: dict[str, str]) -> None:
    assert api.get("/api/schedule-calendar", **window).status_code == 400


def test_schedules_are_listed_by_state(api: Api, deployment: Deployment) -> None:
    put(api)
    put(api, "off", paused=True)
    put(api, "past", cron=None, at="2998-01-01T00:00:00Z")
    with deployment.database.transaction() as tx:
        statement = """UPDATE schedules SET next_scheduled_at = NULL, next_fire_at = NULL
            WHERE tenant_id = :tenant AND id = 'past'"""
        tx.execute(statement, {"tenant": api.tenant})
    for state, ids in (("on", ["nightly"]), ("paused", ["off"]), ("over", ["past"]), ("failed", [])):
        assert [each["id"] for each in api.get("/api/schedules", state=state).json["schedules"]] == ids
    assert api.get("/api/schedules", state="lost").status_code == 400
