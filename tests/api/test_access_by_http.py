"""Tokens, sessions of browsers and tenants over HTTP."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from werkzeug.datastructures import Headers
from werkzeug.test import TestResponse

from pipeweave.api import create_app
from pipeweave.api.http.auth import TOKEN_CACHE_S, Authenticator
from pipeweave.errors import Forbidden, Unauthenticated
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import access_tokens, sessions
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, TICK, WORKER, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens

BASE = "http://localhost:3000"
OWN = {"Sec-Fetch-Site": "same-origin", "X-Tenant": "default"}
_names = itertools.count(1)


@pytest.fixture
def admin(api: Api, tokens: Tokens) -> Api:
    return replace(api, token=tokens.make(ADMIN))


@pytest.fixture
def owner(api: Api, tokens: Tokens) -> Api:
    """An administrator of every tenant."""
    return replace(api, token=tokens.make(ADMIN, tenants=("*",)))


def code(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


class Browser:
    """A browser with a session."""

    def __init__(self, app: Flask, deployment: Deployment, token: str) -> None:
        self.http = app.test_client()
        with deployment.database.transaction() as tx:
            session = sessions.begin_by_token(tx, token, "test")
        assert session is not None
        self.secret = session.secret
        self.http.set_cookie("pipeweave-3000", session.secret, domain="localhost")

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.http.get(path, base_url=BASE, headers=OWN | headers)

    def post(self, path: str, body: Any = None, **headers: str) -> TestResponse:
        return self.http.post(path, base_url=BASE, json=body or {}, headers=OWN | headers)


def test_a_session_reads_and_writes_like_its_token(
    app: Flask, deployment: Deployment, tokens: Tokens
) -> None:
    browser = Browser(app, deployment, tokens.make(READ, WRITE))
    assert browser.get("/api/runs").status_code == 200
    assert browser.post("/api/queue/pause").status_code == 200
    assert browser.post("/api/queue/resume").status_code == 200
    assert code(browser.post("/api/maintenance/request")) == (403, "FORBIDDEN")


def test_a_session_for_reading_changes_nothing(app: Flask, deployment: Deployment, tokens: Tokens) -> None:
    browser = Browser(app, deployment, tokens.make(READ))
    assert code(browser.post("/api/queue/pause")) == (403, "FORBIDDEN")


def test_a_session_enters_only_the_tenants_of_its_token(
    app: Flask, deployment: Deployment, tokens: Tokens
) -> None:
    browser = Browser(app, deployment, tokens.make(READ))
    headers = OWN | {"X-Tenant": "neighbour"}
    answer = browser.http.get("/api/runs", base_url=BASE, headers=headers)
    assert code(answer) == (404, "NOT_FOUND")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_another_site_cannot_use_a_session(
    app: Flask, deployment: Deployment, tokens: Tokens, site: str
) -> None:
    browser = Browser(app, deployment, tokens.make(READ, WRITE))
    for answer in (
        browser.get("/api/runs", **{"Sec-Fetch-Site": site}),
        browser.post("/api/queue/pause", **{"Sec-Fetch-Site": site}),
    ):
        assert code(answer) == (403, "CROSS_SITE")


def test_no_origin_may_read_with_a_session(deployment: Deployment, tokens: Tokens) -> None:
    app = create_app(replace(deployment.settings, cors_origins=("*",)), deployment)
    browser = Browser(app, deployment, tokens.make(READ))
    answer = browser.get("/api/runs", Origin="https://friend.example", **{"Sec-Fetch-Site": "cross-site"})
    assert code(answer) == (403, "CROSS_SITE")
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("forged", ["x" * 43, "pw_" + "x" * 43, "%00", '"; DROP TABLE ui_sessions'])
def test_a_forged_session_is_refused(app: Flask, forged: str) -> None:
    http = app.test_client()
    http.set_cookie("pipeweave-3000", forged, domain="localhost")
    answer = http.get("/api/runs", base_url=BASE, headers=OWN)
    assert code(answer) == (401, "UNAUTHENTICATED")


def test_a_session_is_over_within_two_seconds_of_its_token_or_its_end(
    deployment: Deployment, tokens: Tokens
) -> None:
    now = 100.0
    authenticator = Authenticator(deployment.database, clock=lambda: now)
    headers = Headers({"X-Tenant": "default"})
    with deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="of-a-session", tenants=["default"], scopes=[READ])
        first, second = (sessions.begin_by_token(tx, token) for _ in range(2))
    assert first is not None and second is not None
    for each in (first, second):
        admission = authenticator.admit(headers, (READ,), session=each.secret)
        assert (admission.tenant, admission.identity.session_id) == ("default", each.id)
    with deployment.database.transaction() as tx:
        sessions.end(tx, first.secret)
    authenticator.forget_session(first.secret)
    with pytest.raises(Unauthenticated):
        authenticator.admit(headers, (READ,), session=first.secret)
    with deployment.database.transaction() as tx:
        access_tokens.revoke(tx, "of-a-session")
    now += TOKEN_CACHE_S
    assert TOKEN_CACHE_S <= 2
    with pytest.raises(Unauthenticated):
        authenticator.admit(headers, (READ,), session=second.secret)


@pytest.mark.parametrize(("scope", "reads"), [(ADMIN, True), (READ, True), (WORKER, False)])
def test_where_browsers_only_read_no_session_does_more(
    deployment: Deployment, tokens: Tokens, scope: str, reads: bool
) -> None:
    authenticator = Authenticator(deployment.database, is_read_only=True)
    token = tokens.make(scope)
    with deployment.database.transaction() as tx:
        session = sessions.begin_by_token(tx, token)
    assert session is not None
    headers = Headers({"X-Tenant": "default"})
    with pytest.raises(Forbidden):
        authenticator.admit(headers, (WRITE,), session=session.secret)
    if reads:
        assert authenticator.admit(headers, (READ,), session=session.secret)
    else:
        with pytest.raises(Forbidden):
            authenticator.admit(headers, (READ,), session=session.secret)
    # A program's token keeps its rights.
    assert authenticator.admit(Headers({"Authorization": f"Bearer {token}"}), (scope,))


def test_a_link_logs_in_once_with_the_rights_of_its_maker(reader: Api, deployment: Deployment) -> None:
    made = reader.post("/api/sessions/links")
    assert made.status_code == 201
    assert made.json["path"] == f"/ui/login#{made.json['code']}"
    with deployment.database.transaction() as tx:
        session = sessions.begin_by_link(tx, made.json["code"])
        assert session is not None and sessions.begin_by_link(tx, made.json["code"]) is None
        found = sessions.verify_session(tx, session.secret)
    assert found is not None and found.access.scopes == (READ,)


def created(api: Api, **more: Any) -> TestResponse:
    body = {"name": f"made-{next(_names)}", "scopes": [READ], "tenants": ["default"]} | more
    return api.post("/api/tokens", body)


def test_an_administrator_makes_lists_and_revokes_tokens(admin: Api, app: Flask) -> None:
    ends = (datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="seconds")
    made = created(admin, expiresAt=ends)
    assert made.status_code == 201
    headers = {"Authorization": f"Bearer {made.json['token']}"}
    assert app.test_client().get("/api/runs", headers=headers).status_code == 200
    listed = {each["id"]: each for each in admin.get("/api/tokens", limit=1000).json["tokens"]}
    shown = listed[made.json["id"]]
    assert (shown["name"], shown["scopes"], shown["isValid"]) == (made.json["name"], [READ], True)
    assert shown["usedAt"] is not None and shown["expiresAt"] is not None
    assert made.json["token"] not in str(listed)
    revoked = admin.post(f"/api/tokens/{made.json['name']}/revoke")
    assert revoked.json == {"revoked": [made.json["id"]]}
    assert code(admin.post(f"/api/tokens/{made.json['id']}/revoke")) == (404, "NOT_FOUND")


@pytest.mark.parametrize("ends", ["2168-05-28T03:44:39+17:28", "9999-12-31T23:59:59-23:59"])
def test_a_token_may_end_at_a_time_of_any_offset(api: Api, tokens: Tokens, ends: str) -> None:
    admin = replace(api, token=tokens.make(ADMIN, expires_at=datetime.max.replace(tzinfo=UTC)))
    assert created(admin, expiresAt=ends).status_code == 201


def test_tokens_are_paged(admin: Api) -> None:
    names = [created(admin).json["name"] for _ in range(3)]
    first = admin.get("/api/tokens", limit=2).json
    second = admin.get("/api/tokens", limit=2, cursor=first["nextCursor"]).json
    found = [each["name"] for each in (*first["tokens"], *second["tokens"])]
    assert found[:3] == names[::-1]


@pytest.mark.parametrize("tenants", [["neighbour"], ["default", "neighbour"], ["*"]])
def test_an_administrator_of_a_tenant_gives_access_to_no_other(admin: Api, tenants: list[str]) -> None:
    assert code(created(admin, tenants=tenants)) == (403, "FORBIDDEN")


def test_only_an_administrator_of_all_tenants_gives_the_tick(admin: Api, owner: Api) -> None:
    assert code(created(admin, scopes=[TICK])) == (403, "FORBIDDEN")
    assert created(owner, scopes=[TICK], tenants=["*"]).status_code == 201


def test_tokens_of_other_tenants_are_not_there(admin: Api, owner: Api) -> None:
    foreign = created(owner, tenants=["neighbour"]).json
    assert foreign["id"] not in {each["id"] for each in admin.get("/api/tokens", limit=1000).json["tokens"]}
    assert code(admin.post(f"/api/tokens/{foreign['id']}/revoke")) == (404, "NOT_FOUND")
    assert owner.post(f"/api/tokens/{foreign['id']}/revoke").status_code == 200


def test_all_mistakes_in_a_new_token_are_told(admin: Api) -> None:
    answer = admin.post("/api/tokens", {"name": "", "scopes": ["all"], "tenants": [], "expiresAt": 5})
    assert code(answer) == (400, "INVALID_INPUT")
    assert {each["field"].partition("[")[0] for each in answer.json["errors"]} == {
        *("name", "scopes", "tenants", "expiresAt")
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/tokens"),
        ("POST", "/api/tokens"),
        ("POST", "/api/tokens/ci/revoke"),
        ("GET", "/api/sessions"),
        ("PUT", "/api/tenants/default"),
    ],
)
def test_tokens_and_sessions_are_for_administrators(api: Api, method: str, path: str) -> None:
    assert code(api.raw(method, path, b"{}")) == (403, "FORBIDDEN")


def test_an_administrator_ends_a_session(
    admin: Api, app: Flask, deployment: Deployment, tokens: Tokens
) -> None:
    browser = Browser(app, deployment, tokens.make(READ))
    newest = admin.get("/api/sessions").json["sessions"][0]
    assert newest["agent"] == "test"
    assert admin.post(f"/api/sessions/{newest['id']}/revoke").json["id"] == newest["id"]
    assert browser.get("/api/runs").status_code == 401
    assert code(admin.post(f"/api/sessions/{newest['id']}/revoke")) == (404, "NOT_FOUND")


def test_a_token_lists_the_tenants_that_it_may_enter(reader: Api, app: Flask, tokens: Tokens) -> None:
    shown = reader.get("/api/tenants").json["tenants"]
    assert [each["id"] for each in shown] == ["default"]
    headers = {"Authorization": f"Bearer {tokens.make(READ, tenants=('*',))}"}
    every = app.test_client().get("/api/tenants?limit=1000", headers=headers).json["tenants"]
    assert {"default", "neighbour"} <= {each["id"] for each in every}


def test_a_tenant_is_made_and_limited(owner: Api, admin: Api) -> None:
    assert owner.put("/api/tenants/made-here", {"maxActiveRuns": 3}).json["maxActiveRuns"] == 3
    assert owner.put("/api/tenants/made-here", {}).json["maxActiveRuns"] is None
    assert code(admin.put("/api/tenants/made-here", {})) == (404, "NOT_FOUND")
    assert code(owner.put("/api/tenants/made-here", {"maxActiveRuns": 0})) == (400, "INVALID_INPUT")


# --- the login --------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(deployment: Deployment) -> Flask:
    """An application of its own: failed logins are counted by application."""
    return create_app(deployment.settings, deployment)


def log_in(app: Flask, secret: str, base: str = BASE, **more: str) -> TestResponse:
    fields = {"secret": secret, "next": more.pop("next", "")}
    headers = {"Sec-Fetch-Site": "same-origin"} | {
        name.replace("_", "-"): text for name, text in more.items()
    }
    return app.test_client().post("/ui/login", base_url=base, data=fields, headers=headers)


def test_a_login_gives_a_cookie_and_leads_on(fresh: Flask, tokens: Tokens) -> None:
    answer = log_in(fresh, tokens.make(READ), next="/ui/default/runs?status=failed")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/ui/default/runs?status=failed"
    assert answer.headers["Set-Cookie"].startswith("pipeweave-3000=")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example",
        "/ui//evil.example",
        "/ui/\\evil",
        "/docs",
        "/ui/logout",
        "\r\nX: y",
    ],
)
def test_a_login_leads_to_no_other_place(fresh: Flask, tokens: Tokens, target: str) -> None:
    assert log_in(fresh, tokens.make(READ), next=target).headers["Location"] == "/ui/"


@pytest.mark.parametrize("headers", [{"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}])
def test_another_site_logs_nobody_in_or_out(fresh: Flask, tokens: Tokens, headers: dict[str, str]) -> None:
    answer = log_in(fresh, tokens.make(READ), **headers)
    assert answer.status_code == 403 and "Set-Cookie" not in answer.headers
    out = fresh.test_client().post("/ui/logout", base_url=BASE, headers={"Sec-Fetch-Site": "cross-site"})
    assert out.status_code == 403 and "Set-Cookie" not in out.headers


def test_over_plain_http_nobody_logs_in_from_elsewhere(fresh: Flask, tokens: Tokens) -> None:
    token, elsewhere = tokens.make(READ), "http://pipes.example.com:3000"
    assert log_in(fresh, token, elsewhere).status_code == 403
    secure = log_in(fresh, token, "https://pipes.example.com")
    assert secure.status_code == 303 and "__Host-pipeweave=" in secure.headers["Set-Cookie"]
    settings = replace(fresh.extensions["pipeweave"].settings, ui_insecure=True)
    deployment = replace(fresh.extensions["pipeweave"], settings=settings)
    assert log_in(create_app(settings, deployment), token, elsewhere).status_code == 303


def test_a_token_that_may_not_read_begins_no_session(fresh: Flask, tokens: Tokens) -> None:
    assert log_in(fresh, tokens.make(WORKER)).status_code == 403


@pytest.mark.parametrize(
    "secret", ["", "pw_wrong", "wrong", "x" * 100_000, "\0", "<script>alert(1)</script>"]
)
def test_a_wrong_secret_logs_nobody_in_and_is_not_shown(fresh: Flask, secret: str) -> None:
    answer = log_in(fresh, secret)
    assert answer.status_code == 401 and "Set-Cookie" not in answer.headers
    assert not secret.strip("\0") or secret not in answer.text


def test_ten_failures_a_minute_are_enough(fresh: Flask) -> None:
    assert {log_in(fresh, "pw_wrong").status_code for _ in range(10)} == {401}
    for secret in ("pw_wrong", "wrong code", "x" * 1_000, ""):
        refused = log_in(fresh, secret)
        assert refused.status_code == 429 and refused.headers["Retry-After"] == "60"


def test_who_has_a_token_or_a_code_logs_in_however_often_others_failed_at_the_same_address(
    fresh: Flask, tokens: Tokens, reader: Api
) -> None:
    for _ in range(11):
        log_in(fresh, "pw_wrong")
    assert log_in(fresh, tokens.make(READ)).status_code == 303
    assert log_in(fresh, reader.post("/api/sessions/links").json["code"]).status_code == 303
    # A login that succeeds gives whoever guesses no further tries.
    assert log_in(fresh, "pw_wrong").status_code == 429


def entries(owner: Api, verb: str) -> list[dict[str, Any]]:
    """The rows of the audit with this verb, newest first."""
    found: list[dict[str, Any]] = owner.get("/api/audit", verb=verb, limit="1000").json["entries"]
    return found


def test_a_login_and_a_logout_stand_in_the_audit(fresh: Flask, owner: Api, reader: Api) -> None:
    browser = fresh.test_client()
    fields = {"secret": reader.token}
    browser.post("/ui/login", base_url=BASE, data=fields, headers=OWN | {"User-Agent": "A browser"})
    (began, *_) = entries(owner, "sessions.log_in")
    assert (began["source"], began["actor"], began["tenant"]) == ("session", "test", "default")
    assert began["given"] == {"by": "token", "agent": "A browser"} and began["after"]["expiresAt"]
    assert began["object"] == began["sessionId"] and began["tokenId"] and began["requestId"]
    assert reader.token not in str(began)
    browser.post("/ui/logout", base_url=BASE, headers=OWN)
    (ended, *_) = entries(owner, "sessions.log_out")
    assert (ended["object"], ended["tokenId"]) == (began["object"], began["tokenId"])
    # There is no session to end any more.
    browser.post("/ui/logout", base_url=BASE, headers=OWN)
    assert entries(owner, "sessions.log_out")[0] == ended
    log_in(fresh, reader.post("/api/sessions/links").json["code"])
    assert entries(owner, "sessions.log_in")[0]["given"]["by"] == "link"


def test_failed_logins_are_one_row_however_many_there_are(fresh: Flask, owner: Api) -> None:
    before = len(entries(owner, "sessions.login_failed"))
    log_in(fresh, "pw_wrong-secret")
    row, *others = entries(owner, "sessions.login_failed")
    assert len(others) == before
    assert (row["actor"], row["tokenId"], row["sessionId"], row["tenant"]) == ("nobody", None, None, None)
    assert row["after"] == {"failures": 1, "addresses": ["127.0.0.1"]} and "wrong-secret" not in str(row)
    for _ in range(20):
        log_in(fresh, "pw_wrong-secret")
    again, *others = entries(owner, "sessions.login_failed")
    assert len(others) == before and again["id"] == row["id"]
    # Those beyond the limit count, too; the row is written anew with each power of two.
    assert again["after"]["failures"] == 16


def test_what_a_form_says_stays_text(fresh: Flask) -> None:
    hostile = '"><script>alert(1)</script>{{7*7}}'
    page = fresh.test_client().get("/ui/login", query_string={"next": hostile}, base_url=BASE)
    assert page.status_code == 200 and "<script>alert" not in page.text and "49" not in page.text


def test_no_answer_of_the_api_is_something_that_a_browser_would_run(reader: Api) -> None:
    for path in (
        "/api/runs",
        "/api/runs?status=<script>",
        "/api/nowhere/<script>alert(1)</script>",
        "/metrics",
    ):
        answer = reader.get(path)
        assert answer.mimetype in {"application/json", "application/problem+json", "text/plain"}
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_tenant_is_shown_with_its_use_to_those_who_may_enter(api: Api, owner: Api) -> None:
    assert owner.put("/api/tenants/shown", {"maxActiveRuns": 3}).status_code == 200
    found = owner.get("/api/tenants/shown").json
    assert (found["maxActiveRuns"], found["activeRuns"], found["pausedAt"]) == (3, 0, None)
    paused = replace(owner, sent={"X-Tenant": "shown"}).post("/api/queue/pause", {"reason": "stocktaking"})
    assert paused.status_code == 200, paused.json
    assert owner.get("/api/tenants/shown").json["pauseReason"] == "stocktaking"
    assert code(api.get("/api/tenants/shown")) == (404, "NOT_FOUND")
    assert code(owner.get("/api/tenants/nowhere")) == (404, "NOT_FOUND")


# --- what a token makes -----------------------------------------------------------------------------------


def maker(api: Api, deployment: Deployment, ends: datetime | None) -> Api:
    with deployment.database.transaction() as tx:
        made = access_tokens.make_token(
            tx, name=f"maker-{next(_names)}", tenants=["default"], scopes=[ADMIN], expires_at=ends
        )
    return replace(api, token=made.token)


def test_a_token_ends_no_later_than_the_one_that_made_it(api: Api, deployment: Deployment) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    short = maker(api, deployment, ends)
    answer = created(short)
    assert answer.status_code == 201
    assert datetime.fromisoformat(answer.json["expiresAt"]) == ends
    sooner = created(short, expiresAt=(ends - timedelta(minutes=1)).isoformat())
    assert sooner.status_code == 201
    late = created(short, expiresAt=(ends + timedelta(seconds=1)).isoformat())
    assert code(late) == (400, "INVALID_INPUT")
    assert late.json["errors"][0]["field"] == "expiresAt"


def test_what_a_token_made_is_revoked_with_it_where_that_is_wanted(
    api: Api, admin: Api, deployment: Deployment
) -> None:
    first = maker(api, deployment, None)
    child = created(first, scopes=["admin"]).json
    grandchild = created(replace(api, token=child["token"]), scopes=["read"]).json
    other = created(admin).json
    listed = {each["id"]: each for each in admin.get("/api/tokens", limit=500).json["tokens"]}
    assert listed[grandchild["id"]]["madeBy"] == child["id"]
    name = listed[child["id"]]["madeBy"]
    alone = admin.post(f"/api/tokens/{name}/revoke")
    assert alone.json["revoked"] == [name]
    assert code(created(first)) == (401, "UNAUTHENTICATED")
    revoked = admin.post(f"/api/tokens/{child['id']}/revoke", {"children": True}).json["revoked"]
    assert set(revoked) == {child["id"], grandchild["id"]}
    assert other["id"] not in revoked


@pytest.mark.parametrize("scope", ["read", "write", "admin", "worker"])
def test_scopes_may_have_the_names_of_the_command_line(scope: str, admin: Api) -> None:
    answer = created(admin, scopes=[scope, f"orchestrator:{scope}"])
    assert (answer.status_code, answer.json["scopes"]) == (201, [f"orchestrator:{scope}"])
