"""People log in by an OpenID provider: a real one, that tells the truth and lies."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import urllib3
from flask import Flask
from flask.testing import FlaskClient
from joserfc.jwk import RSAKey
from support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, running_provider
from support.servers import wait_until
from werkzeug.test import TestResponse

from pipeweave import ids
from pipeweave.api import create_app
from pipeweave.api.http.auth import TOKEN_CACHE_S, Authenticator
from pipeweave.api.http.renewal import Renewal
from pipeweave.api.oidc import Provider
from pipeweave.api.ui import login_limit
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import person_sessions
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WRITE
from pipeweave.orchestrator.security.sessions import SESSION_ID
from pipeweave.settings import Settings
from pipeweave.settings.oidc import GroupRole

if TYPE_CHECKING:
    from conftest import Tokens

BASE = "http://localhost:3000"
COOKIE = "pipeweave-3000"
OWN = {"Sec-Fetch-Site": "same-origin", "X-Tenant": "default"}
# As a browser that comes back from another site.
BACK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
ROLES = (
    GroupRole("engineers", ("default",), (WRITE,)),
    GroupRole("everybody", ("*",), (READ,)),
    GroupRole("owners", ("*",), (ADMIN,)),
    GroupRole("shopkeepers", ("shop",), (ADMIN,)),
)


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def settings(deployment: Deployment, provider: OpenIdProvider) -> Settings:
    return replace(
        deployment.settings,
        oidc_issuer=provider.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        oidc_roles=ROLES,
    )


def app_of(settings: Settings, deployment: Deployment) -> Flask:
    return create_app(settings, replace(deployment, settings=settings))


@pytest.fixture
def app(settings: Settings, deployment: Deployment) -> Flask:
    return app_of(settings, deployment)


@dataclass
class Person:
    """A browser of somebody who logs in."""

    app: Flask
    http: FlaskClient = field(init=False)

    def __post_init__(self) -> None:
        self.http = self.app.test_client()

    def begin(self, target: str = "/ui/default/runs") -> TestResponse:
        return self.http.get(f"/ui/login/oidc?{urlencode({'next': target})}", base_url=BASE)

    def at_provider(self, address: str) -> str:
        """Where the provider sends the browser."""
        with urllib3.PoolManager() as pool:
            return pool.request("GET", address, redirect=False).headers["Location"]

    def back(self, address: str) -> TestResponse:
        return self.http.get(
            urlsplit(address)._replace(scheme="", netloc="").geturl(), base_url=BASE, headers=BACK
        )

    def log_in(self, target: str = "/ui/default/runs") -> TestResponse:
        begun = self.begin(target)
        return self.back(self.at_provider(begun.headers["Location"])) if begun.status_code == 303 else begun

    @property
    def secret(self) -> str | None:
        cookie = self.http.get_cookie(COOKIE, domain="localhost")
        return cookie.value if cookie else None

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.http.get(path, base_url=BASE, headers=OWN | headers)

    def post(self, path: str, body: Any = None, **headers: str) -> TestResponse:
        return self.http.post(path, base_url=BASE, json=body or {}, headers=OWN | headers)


@pytest.fixture
def person(app: Flask) -> Person:
    return Person(app)


def test_a_person_logs_in_and_has_the_rights_of_their_group(person: Person) -> None:
    answer = person.log_in("/ui/default/runs?status=failed")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/ui/default/runs?status=failed")
    assert person.get("/ui/default/runs").status_code == 200
    assert person.get("/api/runs").status_code == 200
    assert person.post("/api/queue/pause").status_code == 200
    assert person.post("/api/queue/resume").status_code == 200
    assert person.get("/api/tokens").status_code == 403
    assert person.get("/api/runs", **{"X-Tenant": "shop"}).status_code == 404


def test_the_browser_is_sent_with_pkce_state_and_nonce_and_keeps_their_secrets_sealed(person: Person) -> None:
    begun = person.begin()
    address = urlsplit(begun.headers["Location"])
    query = {name: value for name, (value,) in parse_qs(address.query).items()}
    assert query["redirect_uri"] == f"{BASE}/ui/login/callback" and query["client_id"] == CLIENT_ID
    assert query["code_challenge_method"] == "S256" and len(query["code_challenge"]) == 43
    assert len(query["state"]) == len(query["nonce"]) == 43
    (cookie,) = begun.headers.getlist("Set-Cookie")
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Max-Age=600" in cookie
    assert query["state"] not in cookie and query["nonce"] not in cookie
    assert person.begin().headers["Location"] != begun.headers["Location"]


def test_cookies_over_https_are_those_of_this_host_alone(app: Flask) -> None:
    http = app.test_client()
    begun = http.get("/ui/login/oidc", base_url="https://pipeweave.example")
    (cookie,) = begun.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Host-pipeweave-login=") and "; Secure" in cookie and "Path=/" in cookie


def test_over_plain_http_nobody_logs_in_from_elsewhere(app: Flask) -> None:
    answer = app.test_client().get("/ui/login/oidc", base_url="http://pipeweave.example")
    assert answer.status_code == 403 and "plain HTTP" in answer.text


def test_a_login_leads_to_no_other_place(person: Person) -> None:
    assert person.log_in("//evil.example/").headers["Location"] == "/ui/"


def refused(person: Person, words: str) -> None:
    answer = person.log_in()
    assert answer.status_code == 401, answer.text
    assert words in answer.text and person.secret is None
    assert person.get("/api/runs").status_code == 401


HOUR = 3600


@pytest.mark.parametrize(
    ("lies", "words"),
    [
        ({"iss": "https://evil.example"}, "claim iss"),
        ({"iss": None}, "claim iss"),
        ({"aud": "another"}, "claim aud"),
        ({"aud": ["another", "third"]}, "claim aud"),
        ({"aud": [CLIENT_ID, "another"]}, "azp"),
        ({"aud": [CLIENT_ID, "another"], "azp": "another"}, "azp"),
        ({"azp": "another"}, "azp"),
        ({"aud": None}, "claim aud"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": 17}, "nonce"),
        ({"exp": None}, "claim exp"),
        ({"exp": "soon"}, "claim exp"),
        ({"iat": None}, "claim iat"),
        ({"sub": None}, "claim sub"),
        ({"sub": ""}, "claim sub"),
        ({"sub": "x" * 256}, "claim sub"),
        ({"sub": "a\nb"}, "claim sub"),
        ({"sub": 17}, "claim sub"),
    ],
)
def test_an_id_token_that_says_something_else_is_refused(
    person: Person, provider: OpenIdProvider, lies: dict[str, Any], words: str
) -> None:
    provider.lies = lies
    refused(person, words)


@pytest.mark.parametrize(
    ("claim", "offset_s"), [("exp", -61), ("exp", -10 * HOUR), ("iat", 120), ("iat", 10 * HOUR), ("nbf", 120)]
)
def test_an_id_token_of_another_time_is_refused(
    person: Person, provider: OpenIdProvider, claim: str, offset_s: int
) -> None:
    provider.lies = {claim: int(time.time()) + offset_s}
    refused(person, f"claim {claim}")


def test_clocks_may_differ_by_some_seconds(person: Person, provider: OpenIdProvider) -> None:
    provider.lies = {"iat": int(time.time()) + 20, "exp": int(time.time()) - 20}
    assert person.log_in().status_code == 303


def unsigned(token: str) -> str:
    return f"{part(json.dumps({'alg': 'none'}).encode())}.{token.split('.')[1]}."


def with_public_key_as_secret(provider: OpenIdProvider) -> Callable[[str], str]:
    """The public key, which everybody has, as the secret of an HMAC."""
    secret = provider.key.as_pem(private=False)

    def signed(token: str) -> str:
        signed_part = f"{part(json.dumps({'alg': 'HS256', 'kid': 'k1'}).encode())}.{token.split('.')[1]}"
        return f"{signed_part}.{part(hmac.digest(secret, signed_part.encode(), 'sha256'))}"

    return signed


def part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def flipped(token: str) -> str:
    head, body, signature = token.split(".")
    return f"{head}.{body}.{('A' if signature[5] != 'A' else 'B').join((signature[:5], signature[6:]))}"


@pytest.mark.parametrize(
    ("forgery", "words"),
    [
        (unsigned, "algorithm"),
        ("hmac", "algorithm"),
        (flipped, "signature"),
        (lambda token: "junk", "signature"),
        (lambda token: token + ".more.parts", "signature"),
        (lambda token: "x" * 70_000, "there is no ID token"),
        (lambda token: 17, "there is no ID token"),
        (lambda token: None, "there is no ID token"),
    ],
)
def test_an_id_token_that_the_provider_did_not_sign_is_refused(
    person: Person, provider: OpenIdProvider, forgery: Any, words: str
) -> None:
    provider.alter = with_public_key_as_secret(provider) if forgery == "hmac" else forgery
    refused(person, words)


def test_a_key_that_the_provider_does_not_publish_is_unknown(
    person: Person, provider: OpenIdProvider
) -> None:
    provider.published = [RSAKey.generate_key(2048, {"kid": "k1"})]
    refused(person, "signature cannot be verified")
    provider.header = {"kid": "k9"}
    refused(person, "a key that the provider does not have")


def test_new_keys_are_read_and_junk_does_not_make_them_be_read_again_and_again(
    settings: Settings, deployment: Deployment, provider: OpenIdProvider
) -> None:
    now = [0.0]
    own = Provider(settings, clock=lambda: now[0])
    discovery = own._discovery
    assert discovery.key("k1") is not None
    for _ in range(20):
        assert discovery.key("junk") is None
    assert provider.asked.count("/keys") == 1
    provider.key = RSAKey.generate_key(2048, {"kid": "k2"})
    assert discovery.key("k2") is None
    now[0] += 61
    assert discovery.key("k2") is not None and discovery.key("k1") is None
    assert provider.asked.count("/keys") == 2


def test_a_code_works_once_and_so_does_what_the_browser_keeps(person: Person) -> None:
    address = person.at_provider(person.begin().headers["Location"])
    assert person.back(address).status_code == 303
    again = person.back(address)
    assert again.status_code == 401 and "has begun no login" in again.text


def test_a_code_that_another_browser_has_used_is_refused(person: Person, app: Flask) -> None:
    thief = Person(app)
    address = person.at_provider(person.begin().headers["Location"])
    stolen = parse_qs(urlsplit(address).query)["code"][0]
    begun = thief.begin().headers["Location"]
    state = parse_qs(urlsplit(begun).query)["state"][0]
    answer = thief.back(f"{BASE}/ui/login/callback?{urlencode({'code': stolen, 'state': state})}")
    # The code belongs to another verifier of PKCE.
    assert answer.status_code == 401 and "invalid_grant" in answer.text and thief.secret is None


@pytest.mark.parametrize("state", ["", "wrong", "ü"])
def test_a_login_that_this_browser_has_not_begun_is_refused(person: Person, state: str) -> None:
    address = person.at_provider(person.begin().headers["Location"])
    query = parse_qs(urlsplit(address).query)
    forged = f"{BASE}/ui/login/callback?{urlencode({'code': query['code'][0], 'state': state})}"
    answer = person.back(forged)
    assert answer.status_code == 401 and person.secret is None
    assert person.back(address).status_code == 401, "the cookie was good for one try"


def test_a_browser_without_a_login_is_refused_and_nobody_is_asked(
    app: Flask, provider: OpenIdProvider
) -> None:
    answer = Person(app).back(f"{BASE}/ui/login/callback?code=x&state=y")
    assert answer.status_code == 401 and provider.asked == []


def test_another_provider_is_named_by_its_issuer(person: Person) -> None:
    address = person.at_provider(person.begin().headers["Location"])
    answer = person.back(f"{address}&iss=https%3A%2F%2Fevil.example")
    assert answer.status_code == 401 and "another provider" in answer.text


def test_a_browser_that_comes_back_to_another_address_is_refused(person: Person) -> None:
    address = person.at_provider(person.begin().headers["Location"])
    cookie = person.http.get_cookie(f"{COOKIE}-login", domain="localhost")
    assert cookie is not None
    person.http.set_cookie(f"{COOKIE}-login", cookie.value, domain="127.0.0.1")
    parts = urlsplit(address)
    answer = person.http.get(f"{parts.path}?{parts.query}", base_url="http://127.0.0.1:3000", headers=BACK)
    assert answer.status_code == 401 and "another address" in answer.text


def test_a_provider_that_checks_the_redirect_gets_the_same_one_again(
    person: Person, provider: OpenIdProvider
) -> None:
    address = person.at_provider(person.begin().headers["Location"])
    for login in provider.codes.values():
        login["redirect_uri"] = "http://localhost:3000/elsewhere"
    answer = person.back(address)
    assert answer.status_code == 401 and "invalid_grant" in answer.text


def test_a_login_takes_ten_minutes_at_most(
    person: Person, monkeypatch: pytest.MonkeyPatch, provider: OpenIdProvider
) -> None:
    address = person.at_provider(person.begin().headers["Location"])
    monkeypatch.setattr("pipeweave.api.ui.oidc_login.TRIAL_LIFE", timedelta(0))
    answer = person.back(address)
    assert answer.status_code == 401 and "too long ago" in answer.text


def test_what_the_provider_refuses_is_told_as_text(person: Person) -> None:
    state = parse_qs(urlsplit(person.begin().headers["Location"]).query)["state"][0]
    query = urlencode({"error": "<b>access_denied", "error_description": "<script>", "state": state})
    answer = person.back(f"{BASE}/ui/login/callback?{query}")
    assert answer.status_code == 401 and "&lt;b&gt;access_denied" in answer.text
    assert "<b>" not in answer.text and "<script>" not in answer.text


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (["guests", "<i>others"], "guests, &lt;i&gt;others"),
        ([], "has no claim"),
        (None, "has no claim"),
        ({"engineers": True}, "has no claim"),
        ([["engineers"]], "has no claim"),
    ],
)
def test_who_is_in_no_group_with_a_role_sees_the_claim(
    person: Person, provider: OpenIdProvider, groups: Any, words: str
) -> None:
    provider.person["groups"] = groups
    answer = person.log_in()
    assert answer.status_code == 403 and words in answer.text and person.secret is None
    assert "OIDC_ROLES" in answer.text and "groups" in answer.text


def test_the_claim_may_be_inside_of_another_or_have_dots(
    settings: Settings, deployment: Deployment, provider: OpenIdProvider
) -> None:
    del provider.person["groups"]
    provider.person |= {"realm_access": {"roles": ["engineers"]}, "https://x.example/groups": "engineers"}
    for claim in ("realm_access.roles", "https://x.example/groups"):
        person = Person(app_of(replace(settings, oidc_groups_claim=claim), deployment))
        assert person.log_in().status_code == 303


def test_groups_may_stand_in_the_userinfo(person: Person, provider: OpenIdProvider) -> None:
    provider.in_userinfo = True
    assert person.log_in().status_code == 303
    assert "/userinfo" in provider.asked


def test_two_roles_do_not_add_up_over_tenants(person: Person, provider: OpenIdProvider) -> None:
    provider.person["groups"] = ["everybody", "shopkeepers"]
    assert person.log_in().status_code == 303
    assert person.get("/api/runs").status_code == 200
    assert person.post("/api/queue/pause").status_code == 403
    assert person.get("/api/audit").status_code == 403
    assert person.get("/api/audit", **{"X-Tenant": "shop"}).status_code == 200
    assert person.post("/api/queue/pause", **{"X-Tenant": "shop"}).status_code == 200
    assert person.post("/api/queue/resume", **{"X-Tenant": "shop"}).status_code == 200
    listed = person.http.get("/api/tokens", base_url=BASE, headers={"Sec-Fetch-Site": "same-origin"})
    assert listed.status_code == 200 and all(each["tenants"] == ["shop"] for each in listed.json["tokens"])
    assert "Pause" not in person.get("/ui/default/queues").text
    assert person.post("/api/maintenance/request").status_code == 403


def test_the_audit_knows_the_person(person: Person, provider: OpenIdProvider) -> None:
    provider.person |= {"sub": "auditor-1", "groups": ["owners"]}
    assert person.log_in().status_code == 303
    assert person.post("/api/queue/pause", {"reason": "by a person"}).status_code == 200
    assert person.post("/api/queue/resume").status_code == 200
    assert person.http.post("/ui/logout", base_url=BASE, headers=OWN).status_code == 303
    assert person.secret is None
    assert person.log_in().status_code == 303
    rows = person.get("/api/audit?actor=oidc:auditor-1").json["entries"]
    assert [row["verb"] for row in rows][::-1][:4] == [
        "sessions.log_in",
        "queue.pause",
        "queue.resume",
        "sessions.log_out",
    ]
    assert {(row["source"], row["tokenId"]) for row in rows} == {("session", None)}
    assert rows[-1]["given"]["by"] == "oidc"


def test_sessions_of_people_are_listed_and_ended(
    person: Person, app: Flask, provider: OpenIdProvider
) -> None:
    provider.person |= {"sub": "lister", "groups": ["owners"]}
    other = Person(app)
    assert person.log_in().status_code == other.log_in().status_code == 303
    rows = [
        each for each in person.get("/api/sessions").json["sessions"] if each["tokenName"] == "oidc:lister"
    ]
    assert len(rows) == 2 and {(row["person"], row["tokenId"]) for row in rows} == {("ann", None)}
    ended = person.post(f"/api/sessions/{rows[0]['id']}/revoke")
    assert ended.json == {"id": rows[0]["id"], "tokenName": "oidc:lister"}
    assert "oidc:lister" in person.get("/ui/default/access?tab=sessions").text


def test_a_token_that_a_person_makes_is_within_one_role_and_ends(
    person: Person, provider: OpenIdProvider, deployment: Deployment
) -> None:
    provider.person |= {"sub": "maker-1", "groups": ["everybody", "shopkeepers"]}
    assert person.log_in().status_code == 303
    headers = {"Sec-Fetch-Site": "same-origin"}

    def make(**wish: Any) -> TestResponse:
        body = {"name": "by a person", "scopes": ["write"], "tenants": ["shop"], **wish}
        return person.http.post("/api/tokens", base_url=BASE, json=body, headers=headers)

    made = make()
    assert made.status_code == 201 and made.json["expiresAt"] is not None
    assert make(tenants=["default"]).status_code == 403
    assert make(tenants=["*"]).status_code == 403
    assert make(scopes=["tick"]).status_code == 403
    late = make(expiresAt="2999-01-01T00:00:00Z")
    assert late.status_code == 400 and late.json["errors"][0]["field"] == "expiresAt"
    listed = person.http.get("/api/tokens", base_url=BASE, headers=headers).json["tokens"]
    (row,) = [each for each in listed if each["id"] == made.json["id"]]
    assert (row["madeBySubject"], row["madeBy"]) == ("maker-1", None)
    revoked = person.http.post("/api/tokens/oidc:maker-1/revoke", base_url=BASE, json={}, headers=headers)
    assert revoked.json == {"revoked": [made.json["id"]]}


def test_a_person_makes_no_link_with_the_rights_of_a_token(person: Person) -> None:
    assert person.log_in().status_code == 303
    answer = person.post("/api/sessions/links")
    assert answer.status_code == 403 and "session is that of a person" in answer.json["detail"]


# --- the provider is away ----------------------------------------------------------------------------------


CONFIGURATION = "/.well-known/openid-configuration"


@pytest.mark.parametrize("way", ["down", "huge"])
@pytest.mark.parametrize("path", [CONFIGURATION, "/token", "/keys"])
def test_a_provider_that_is_away_is_said_and_tokens_still_log_in(
    person: Person, provider: OpenIdProvider, tokens: Tokens, way: str, path: str
) -> None:
    getattr(provider, way).add(path)
    answer = person.log_in()
    assert answer.status_code == 503 and "OpenID provider" in answer.text and person.secret is None
    assert "pipeweave open" in answer.text and "Access token" in answer.text
    form = {"secret": tokens.make(READ)}
    assert person.http.post("/ui/login", base_url=BASE, data=form, headers=OWN).status_code == 303


def test_a_provider_that_is_gone_is_not_asked_again_at_once(
    settings: Settings, deployment: Deployment, provider: OpenIdProvider
) -> None:
    provider.down.add(CONFIGURATION)
    person = Person(app_of(settings, deployment))
    assert [person.begin().status_code for _ in range(5)] == [503] * 5
    assert provider.asked.count(CONFIGURATION) == 1


def test_a_slow_provider_keeps_few_threads_waiting(
    settings: Settings, deployment: Deployment, provider: OpenIdProvider, tokens: Tokens
) -> None:
    app = app_of(settings, deployment)
    people = [Person(app) for _ in range(6)]
    addresses = [each.at_provider(each.begin().headers["Location"]) for each in people]
    provider.slow.add("/token")
    answers: list[int] = []
    waiting = [
        threading.Thread(target=lambda pair=pair: answers.append(pair[0].back(pair[1]).status_code))
        for pair in zip(people, addresses, strict=True)
    ]
    for each in waiting:
        each.start()
    # Three wait for the provider; the others are told at once.
    wait_until(lambda: len(answers) == 3, what="those who are told to come again")
    assert answers == [503] * 3 and provider.asked.count("/token") <= 3
    provider.released.set()
    for each in waiting:
        each.join()
    assert sorted(answers) == [303] * 3 + [503] * 3


def test_a_provider_that_takes_too_long_is_given_up(settings: Settings, provider: OpenIdProvider) -> None:
    provider.slow.add(CONFIGURATION)
    own = Provider(settings, within_s=0.2)
    with pytest.raises(Exception, match="no answer within") as error:
        own._discovery.addresses()
    assert getattr(error.value, "code", "") == "PROVIDER_UNAVAILABLE"


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"authorization_endpoint": None},
        {"jwks_uri": 17},
    ],
)
def test_a_provider_that_says_nonsense_of_itself_is_not_used(
    person: Person, provider: OpenIdProvider, document: dict[str, Any]
) -> None:
    provider.document = document
    assert person.begin().status_code == 503


def test_failed_logins_of_an_address_are_bounded(person: Person) -> None:
    codes = [person.back(f"{BASE}/ui/login/callback?code=x&state=y").status_code for _ in range(11)]
    assert codes == [401] * login_limit.MOST_FAILURES + [429]
    assert person.log_in().status_code == 303, "who is right comes in"


# --- what a person may do is asked again -------------------------------------------------------------------


@dataclass
class Aged:
    """The session of a person, which can be made older, and an authenticator that asks the provider."""

    person: Person
    deployment: Deployment
    authenticator: Authenticator
    clock: list[float]

    def age(self, age: timedelta) -> None:
        self.clock[0] += TOKEN_CACHE_S + 1
        self._execute(
            "UPDATE ui_sessions SET rights_at = CAST(:now AS timestamptz) - CAST(:age AS interval),"
            " asked_at = CAST(:now AS timestamptz) - CAST(:age AS interval) WHERE id = :id",
            {"age": age},
        )

    def statuses(self) -> int:
        """What a request gets: 200, or the status of its error."""
        try:
            self.authenticator.identify(self.person.app.test_request_context().request.headers, self.secret)
        except Exception as error:
            return int(getattr(error, "status", 500))
        return 200

    @property
    def secret(self) -> str:
        assert self.person.secret is not None
        return self.person.secret

    def row(self) -> Any:
        with self.deployment.database.reading() as tx:
            return tx.execute("SELECT * FROM ui_sessions WHERE id = :id", {"id": self.id}).one_or_none()

    @property
    def id(self) -> Any:
        from pipeweave.orchestrator.security import sessions

        if not hasattr(self, "_id"):
            with self.deployment.database.reading() as tx:
                opened = sessions.verify_session(tx, self.secret)
            assert opened is not None
            self._id = opened.id
        return self._id

    def _execute(self, statement: str, parameters: dict[str, Any]) -> None:
        with self.deployment.database.transaction() as tx:
            tx.execute(statement, {"now": tx.now, "id": self.id, **parameters})


@pytest.fixture
def aged(person: Person, settings: Settings, deployment: Deployment, provider: OpenIdProvider) -> Aged:
    provider.person["sub"] = ids.show(SESSION_ID, ids.new_id())
    assert person.log_in().status_code == 303
    clock = [0.0]
    renewal = Renewal(deployment.database, Provider(settings), settings)
    authenticator = Authenticator(deployment.database, clock=lambda: clock[0], renewal=renewal)
    return Aged(person, deployment, authenticator, clock)


DUE = person_sessions.RIGHTS_KEPT + timedelta(seconds=1)
STALE = person_sessions.RIGHTS_LAST + timedelta(seconds=1)


def test_rights_are_not_asked_again_before_their_time(aged: Aged, provider: OpenIdProvider) -> None:
    asked = provider.asked.count("/token")
    aged.age(person_sessions.RIGHTS_KEPT - timedelta(minutes=1))
    assert aged.statuses() == 200 and provider.asked.count("/token") == asked


@pytest.mark.parametrize("has_id_token", [True, False])
def test_rights_that_changed_at_the_provider_change_here(
    aged: Aged, provider: OpenIdProvider, has_id_token: bool
) -> None:
    provider.refresh_has_id_token = has_id_token
    provider.person |= {"groups": ["everybody"], "preferred_username": "ann b"}
    before = aged.row()
    aged.age(DUE)
    assert aged.statuses() == 200
    row = aged.row()
    assert (row.tenants, row.person) == (["*"], "ann b")
    assert row.roles == [{"tenants": ["*"], "scopes": [READ]}]
    assert row.refresh_token != before.refresh_token, "the provider gives a new one with each use"
    aged.age(DUE)
    assert aged.statuses() == 200


@pytest.mark.parametrize("why", ["revoked", "no group", "another person"])
def test_who_may_not_enter_any_more_has_no_session(aged: Aged, provider: OpenIdProvider, why: str) -> None:
    if why == "revoked":
        provider.knows = False
    elif why == "no group":
        provider.person["groups"] = ["guests"]
    else:
        provider.lies = {"sub": "somebody-else"}
    aged.age(DUE)
    assert aged.statuses() == 401 and aged.row() is None


def test_while_the_provider_is_away_rights_count_for_an_hour(aged: Aged, provider: OpenIdProvider) -> None:
    provider.down.add("/token")
    aged.age(DUE)
    assert aged.statuses() == 200 and aged.row() is not None
    aged.age(STALE)
    assert aged.statuses() == 503 and aged.row() is not None
    provider.down.clear()
    aged.age(STALE)
    assert aged.statuses() == 200


def test_a_session_that_was_left_overnight_is_asked_for_and_goes_on(aged: Aged) -> None:
    aged.age(timedelta(hours=10))
    assert aged.statuses() == 200


def test_of_requests_that_come_at_the_same_time_one_asks(aged: Aged, provider: OpenIdProvider) -> None:
    asked = provider.asked.count("/token")
    aged.age(STALE)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(aged.statuses())) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [200] * 6 and provider.asked.count("/token") == asked + 1


def test_while_one_request_asks_a_slow_provider_others_of_the_session_go_on(
    aged: Aged, provider: OpenIdProvider
) -> None:
    """Else a person with several pages holds all threads of a process."""
    provider.slow.add("/token")
    aged.age(DUE)
    asked = provider.asked.count("/token")
    asking = threading.Thread(target=aged.statuses)
    asking.start()
    wait_until(lambda: provider.asked.count("/token") > asked)
    assert aged.statuses() == 200
    assert asking.is_alive(), "the first still waits"
    provider.released.set()
    asking.join()


def test_without_a_refresh_token_a_session_ends_after_an_hour(
    person: Person, provider: OpenIdProvider, deployment: Deployment
) -> None:
    provider.gives_refresh = False
    provider.person["sub"] = "short"
    assert person.log_in().status_code == 303
    with deployment.database.reading() as tx:
        row = tx.execute("SELECT * FROM ui_sessions WHERE subject = 'short'").one()
    assert row.refresh_token is None and row.expires_at - row.created_at == person_sessions.RIGHTS_LAST


def test_a_refresh_token_is_stored_sealed(aged: Aged, provider: OpenIdProvider) -> None:
    stored = str(aged.row())
    assert provider.refresh_tokens and not any(each in stored for each in provider.refresh_tokens)


def test_a_session_of_a_person_is_nothing_where_nobody_logs_in_by_a_provider(
    person: Person, deployment: Deployment
) -> None:
    assert person.log_in().status_code == 303
    without = create_app(deployment.settings, deployment).test_client()
    assert person.secret is not None
    without.set_cookie(COOKIE, person.secret, domain="localhost")
    assert without.get("/api/runs", base_url=BASE, headers=OWN).status_code == 401
    assert without.get("/ui/login/oidc", base_url=BASE).status_code == 404


# --- ways to log in ----------------------------------------------------------------------------------------


def test_where_only_the_provider_logs_in_tokens_do_not_but_links_do(
    settings: Settings, deployment: Deployment, tokens: Tokens
) -> None:
    app = app_of(replace(settings, ui_login="oidc"), deployment)
    http, token = app.test_client(), tokens.make(READ)
    page = http.get("/ui/login", base_url=BASE)
    assert "Log in with your organization" in page.text and "Access token" not in page.text
    refused = http.post("/ui/login", base_url=BASE, data={"secret": token}, headers=OWN)
    assert refused.status_code == 403 and "pipeweave open" in refused.text
    link = http.post("/api/sessions/links", headers={"Authorization": f"Bearer {token}"}).json
    form = {"secret": link["code"]}
    assert http.post("/ui/login", base_url=BASE, data=form, headers=OWN).status_code == 303


def test_where_tokens_log_in_the_provider_is_not_there(settings: Settings, deployment: Deployment) -> None:
    http = app_of(replace(settings, ui_login="token"), deployment).test_client()
    assert "organization" not in http.get("/ui/login", base_url=BASE).text
    assert http.get("/ui/login/oidc", base_url=BASE).status_code == 404


def test_no_secret_of_a_login_is_logged(
    person: Person, provider: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    begun = person.begin().headers["Location"]
    address = person.at_provider(begun)
    assert person.back(address).status_code == 303
    logged = " ".join(
        f"{each.getMessage()} {each.__dict__}" for each in caplog.records if "pipeweave" in each.name
    )
    secrets = [
        parse_qs(urlsplit(address).query)["code"][0],
        *provider.refresh_tokens,
        *provider.access_tokens,
    ]
    assert not any(each in logged for each in [*secrets, CLIENT_SECRET])
