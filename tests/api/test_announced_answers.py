"""Fragments that pages fetch again are answered before the application, by the same rights as by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support.api_samples import OTHER_TENANT, TENANT
from support.counted_calls import counted_calls
from werkzeug.test import EnvironBuilder

from pipeweave.api import create_app
from pipeweave.api.http import auth, headers
from pipeweave.api.ui import announced_answers
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import ADMIN, EVERY_TENANT, READ, WRITE, access_tokens, sessions

if TYPE_CHECKING:
    from conftest import Tokens
    from flask import Flask

RUNS = f"/ui/{TENANT}/runs"
# It takes 106; the application takes 1,316, and 1,413 to say that nothing is new.
CALLS = 120
# These are another one's in each answer, and the server's.
OWN_FIELDS = {headers.REQUEST_ID, "Date"}


@dataclass
class Answer:
    status: str
    fields: dict[str, str]
    body: bytes
    calls: int

    @property
    def shared_fields(self) -> dict[str, str]:
        return {name: value for name, value in self.fields.items() if name not in OWN_FIELDS}


@dataclass
class Pages:
    """The application as the server calls it; `asked` counts the requests that come to its inner part."""

    app: Flask
    asked: list[str] = field(default_factory=list)

    def fetch(self, token: str = "", path: str = RUNS, **more: str) -> Answer:
        """Fetch a fragment as a page does; `_` in the names of headers is `-`."""
        sent = {"X-PipeWeave-Fragment": "main", "Accept-Encoding": "gzip", "Sec-Fetch-Site": "same-origin"}
        sent |= {name.replace("_", "-"): value for name, value in more.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        environ = EnvironBuilder(path, headers=sent).get_environ()
        said: list[Any] = []
        with counted_calls() as calls:
            body = b"".join(self.app.wsgi_app(environ, lambda *head: said.extend(head)))
        return Answer(said[0][:3], dict(said[1]), body, calls.total())

    def asks(self, token: str = "", path: str = RUNS, **more: str) -> str | None:
        """The status of a fetch if the application itself answers it."""
        before = len(self.asked)
        answer = self.fetch(token, path, **more)
        return answer.status if len(self.asked) > before else None


@pytest.fixture
def pages(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    """Rights are remembered, and fragments are fresh, for as long as a test takes."""
    monkeypatch.setattr(auth, "TOKEN_CACHE_S", 600.0)
    monkeypatch.setattr("pipeweave.orchestrator.stream.pace.LEAST_S", 600.0)
    made = Pages(create_app(deployment.settings, deployment))
    made.app.before_request(lambda: made.asked.append("once"))
    yield made


def test_what_is_fetched_again_is_answered_before_the_application_and_is_the_same(
    pages: Pages, tokens: Tokens
) -> None:
    token = tokens.make(READ)
    first, again = pages.fetch(token), pages.fetch(token)
    assert len(pages.asked) == 1
    assert (first.status, again.status, again.body) == ("200", "200", first.body)
    assert again.shared_fields == first.shared_fields
    assert again.fields[headers.REQUEST_ID] != first.fields[headers.REQUEST_ID]
    assert again.calls <= CALLS
    named = pages.fetch(token, X_Request_Id="mine")
    assert named.fields[headers.REQUEST_ID] == "mine"
    plain = [pages.fetch(token, Accept_Encoding="identity") for _ in range(2)]
    assert (plain[1].body, plain[1].shared_fields) == (plain[0].body, plain[0].shared_fields)


def test_a_page_that_has_it_is_told_so(pages: Pages, tokens: Tokens) -> None:
    token = tokens.make(READ)
    tag = pages.fetch(token).fields["ETag"]
    first, again = (pages.fetch(token, If_None_Match=tag) for _ in range(2))
    assert len(pages.asked) == 2
    assert (first.status, again.status, again.body) == ("304", "304", b"")
    assert again.shared_fields == first.shared_fields
    assert again.calls <= CALLS
    assert pages.fetch(token, If_None_Match=f"W/{tag}").status == "304"
    assert pages.fetch(token, If_None_Match='"0f"').status == "200"
    assert len(pages.asked) == 2
    assert pages.asks(token, If_None_Match=f'"0f", {tag}') == "304"


def test_nobody_gets_what_is_kept_for_another_tenant(pages: Pages, tokens: Tokens) -> None:
    both = tokens.make(READ, tenants=(TENANT, OTHER_TENANT))
    others = RUNS.replace(TENANT, OTHER_TENANT)
    mine, theirs = (pages.fetch(both, path) for path in (RUNS, others))
    assert mine.body != theirs.body
    assert [pages.fetch(both, path).body for path in (RUNS, others)] == [mine.body, theirs.body]
    assert len(pages.asked) == 2
    stranger = tokens.make(READ, tenants=(OTHER_TENANT,))
    assert [pages.asks(stranger) for _ in range(2)] == ["404", "404"]
    assert [pages.asks() for _ in range(2)] == ["401", "401"]


def test_nobody_gets_what_is_kept_for_other_scopes(pages: Pages, tokens: Tokens) -> None:
    path = f"/ui/{TENANT}/queues"
    reader, admin = tokens.make(READ), tokens.make(READ, WRITE, ADMIN)
    read, written = pages.fetch(reader, path), pages.fetch(admin, path)
    assert read.body != written.body
    assert [pages.fetch(each, path).body for each in (reader, admin)] == [read.body, written.body]
    assert len(pages.asked) == 2


def test_a_right_that_is_not_remembered_is_looked_up(
    pages: Pages, tokens: Tokens, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "TOKEN_CACHE_S", 0.0)
    token = tokens.make(READ)
    assert [pages.asks(token) for _ in range(2)] == ["200", "200"]
    with deployment.database.transaction() as tx:
        access = access_tokens.verify(tx, token)
        assert access is not None
        tx.execute("UPDATE access_tokens SET revoked_at = now() WHERE id = :id", {"id": access.id})
    assert pages.asks(token) == "401"


def test_who_has_other_rights_than_before_is_looked_at_anew(
    pages: Pages, tokens: Tokens, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "TOKEN_CACHE_S", 0.0)
    token = tokens.make(READ, WRITE)
    pages.fetch(token)
    monkeypatch.setattr(auth, "TOKEN_CACHE_S", 600.0)
    with deployment.database.transaction() as tx:
        access = access_tokens.verify(tx, token)
        assert access is not None
        tx.execute(
            "UPDATE access_tokens SET scopes = :scopes WHERE id = :id", {"id": access.id, "scopes": [READ]}
        )
    # Another address: now the authenticator knows it, and the first address was seen by the old rights.
    pages.fetch(token, f"{RUNS}?status=failed")
    assert pages.asks(token) == "200"
    assert pages.asks(token) is None


def test_a_session_counts_on_its_own_pages_and_until_it_ends(
    pages: Pages, tokens: Tokens, deployment: Deployment
) -> None:
    with deployment.database.transaction() as tx:
        session = sessions.begin_by_token(tx, tokens.make(READ))
    assert session is not None
    cookie = {"Cookie": f"pipeweave-80={session.secret}"}
    assert [pages.asks(**cookie) for _ in range(2)] == ["200", None]
    assert pages.asks(**cookie, Sec_Fetch_Site="cross-site") == "403"
    own = {**cookie, "Sec-Fetch-Site": "same-origin"}
    assert pages.app.test_client(use_cookies=False).post("/ui/logout", headers=own).status_code == 303
    assert pages.asks(**cookie) == "401"


@pytest.mark.parametrize("name", ["Origin", "Range", "If_Modified_Since", "If_Match"])
def test_what_no_page_sends_is_the_applications(pages: Pages, tokens: Tokens, name: str) -> None:
    token = tokens.make(READ)
    pages.fetch(token)
    assert pages.asks(token) is None
    assert pages.asks(token, **{name: "*"}) is not None


def test_a_verb_makes_what_is_kept_old(pages: Pages, tokens: Tokens, run_id: str) -> None:
    token = tokens.make(READ, WRITE)
    pages.fetch(token)
    assert pages.asks(token) is None
    sent, form = {"Authorization": f"Bearer {token}"}, {"id": run_id}
    done = pages.app.test_client().post(f"/ui/{TENANT}/do/runs.cancel", data=form, headers=sent)
    assert done.status_code == 303
    assert pages.asks(token) == "200"


def test_a_page_never_goes_back_in_time(pages: Pages, tokens: Tokens) -> None:
    token = tokens.make(READ)
    read_at = pages.fetch(token).fields["X-PipeWeave-Read-At"]
    assert pages.asks(token, X_PipeWeave_Read_At=read_at) is None
    assert pages.asks(token, X_PipeWeave_Read_At=f"{float(read_at) + 0.001:.6f}") == "200"


def test_such_requests_are_counted_as_those_of_the_application(pages: Pages, tokens: Tokens) -> None:
    operator = tokens.make(READ, tenants=(EVERY_TENANT,))
    for _ in range(3):
        pages.fetch(operator)
    sent = {"Authorization": f"Bearer {operator}"}
    lines = pages.app.test_client().get("/metrics", headers=sent).text.splitlines()
    counted = [each for each in lines if "ui.screen:/runs" in each]
    assert [float(each.rpartition(" ")[2]) for each in counted] == [3]


def test_so_many_are_remembered(pages: Pages, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced_answers, "MOST_KEPT", 1)
    token, other = tokens.make(READ), f"{RUNS}?status=failed"
    assert [pages.asks(token, each) for each in (RUNS, other, RUNS, RUNS)] == ["200", "200", "200", None]
    monkeypatch.setattr(announced_answers, "LONGEST", 10)
    assert [pages.asks(token, other) for _ in range(2)] == ["200", "200"]
