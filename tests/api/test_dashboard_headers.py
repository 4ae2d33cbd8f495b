"""What the dashboard's answers tell browsers not to do, on pages and on all else that stands below `/ui`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.api_samples import TENANT

from pipeweave.api.ui.policy import CONTENT_SECURITY_POLICY
from pipeweave.orchestrator.security import ADMIN, READ, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens
    from flask import Flask

NAMES = {
    "Content-Security-Policy",
    "X-Content-Type-Options",
    "Referrer-Policy",
    "Cross-Origin-Opener-Policy",
    "Cross-Origin-Resource-Policy",
    "Permissions-Policy",
}
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def person(app: Flask, api: Api, tokens: Tokens) -> Api:
    return type(api)(app.test_client(), tokens.make(READ, WRITE, ADMIN))


def policies(answer: Any) -> dict[str, str]:
    return {name: text for name, text in answer.headers.items() if name in NAMES}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 302),
        ("/ui", 308),
        ("/ui/", 302),
        (f"/ui/{TENANT}", 302),
        (f"/ui/{TENANT}/", 200),
        (f"/ui/{TENANT}/runs", 200),
        (f"/ui/{TENANT}/nowhere", 404),
        (f"/ui//{TENANT}/runs", 404),
        ("/ui/stranger/runs", 404),
        ("/ui/static/0/js/boot.js", 200),
        ("/ui/static/0/js/nowhere.js", 404),
        ("/ui/r/{run_id}", 302),
        ("/ui/r/nothing", 404),
    ],
)
def test_every_answer_below_ui_has_the_same_headers_as_a_page(
    person: Api, run_id: str, path: str, status: int
) -> None:
    page = policies(person.get("/ui/login"))
    assert page.keys() == NAMES
    answer = person.get(path.format(run_id=run_id))
    assert (answer.status_code, policies(answer)) == (status, page)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/ui/{TENANT}/runs", 303),
        ("POST", "/ui/login", 401),
        ("POST", "/ui/logout", 303),
        ("POST", f"/ui/{TENANT}/runs", 405),
        ("OPTIONS", f"/ui/{TENANT}/runs", 200),
    ],
)
def test_so_have_answers_to_somebody_who_has_not_logged_in(
    app: Flask, method: str, path: str, status: int
) -> None:
    answer = app.test_client().open(path, method=method, headers=OWN_PAGE)
    assert answer.status_code == status
    assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert policies(answer).keys() == NAMES


def test_so_has_the_answer_to_a_login(app: Flask, tokens: Tokens) -> None:
    answer = app.test_client().post("/ui/login", data={"secret": tokens.make(READ)}, headers=OWN_PAGE)
    assert answer.status_code == 303 and "Set-Cookie" in answer.headers
    assert policies(answer).keys() == NAMES


def test_so_has_the_answer_to_a_verb(person: Api, run_id: str) -> None:
    path = f"/ui/{TENANT}/do/runs.cancel?id={run_id}&next=/ui/{TENANT}/runs"
    answer = person.http.post(path, data={"id": run_id}, headers=person.headers | OWN_PAGE)
    assert answer.status_code == 303, answer.text
    assert policies(answer).keys() == NAMES


def test_answers_of_the_api_have_no_policy_of_pages(reader: Api) -> None:
    assert policies(reader.get("/api/runs")).keys() == {"X-Content-Type-Options"}
