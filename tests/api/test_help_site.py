"""`/help`: the pages of docs/ as files, and nothing beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from pipeweave.api import create_app
from pipeweave.api.http import help_site
from pipeweave.settings import Settings

PAGES = {
    "index.html": ("text/html; charset=utf-8", "<h1>PipeWeave</h1>" * 100),
    "decisions/0116-pages-of-help.html": ("text/html; charset=utf-8", "<h1>0116</h1>"),
    "assets/own/palette.js": ("text/javascript; charset=utf-8", "let a = 1"),
    "assets/main.min.css": ("text/css; charset=utf-8", "p {}"),
    "search/search_index.json": ("application/json", "{}"),
    "systemd/pipeweave-worker@.service": ("text/plain; charset=utf-8", "[Unit]"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a site is, or will be built; a secret lies beside it."""
    monkeypatch.setattr(help_site, "FOLDER", tmp_path / "help")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "help"


@pytest.fixture
def site(folder: Path) -> Path:
    for name, (_, text) in PAGES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".hidden").write_text("hidden")
    return folder


@pytest.fixture
def client(folder: Path, tmp_path: Path) -> FlaskClient:
    """The app. Its pages of help need neither PostgreSQL nor a broker, and no token."""
    settings = Settings(
        database_url="postgresql://pipeweave@127.0.0.1:1/nobody",
        broker_url="redis://127.0.0.1:1/0",
        data_dir=str(tmp_path),
    )
    return create_app(settings).test_client()


@pytest.mark.parametrize("name", PAGES)
def test_each_file_has_its_type_and_the_policy(client: FlaskClient, site: Path, name: str) -> None:
    answer = client.get(f"/help/{name}")
    assert (answer.status_code, answer.content_type, answer.text) == (200, *PAGES[name])
    assert answer.headers["Content-Security-Policy"] == help_site.CONTENT_SECURITY_POLICY
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_policy_allows_no_script_and_no_style_inside_of_a_page() -> None:
    assert "unsafe" not in help_site.CONTENT_SECURITY_POLICY
    assert "require-trusted-types-for 'script'" in help_site.CONTENT_SECURITY_POLICY


def test_the_first_page_keeps_what_is_searched_for(client: FlaskClient, site: Path) -> None:
    assert client.get("/help").location == "/help/"
    assert client.get("/help?q=dead+letters").location == "/help/?q=dead+letters"
    assert client.get("/help/").text == PAGES["index.html"][1]


def test_a_file_that_has_not_changed_is_not_sent_again(client: FlaskClient, site: Path) -> None:
    first = client.get("/help/")
    seen = {"If-None-Match": first.headers["ETag"], "Accept-Encoding": "gzip"}
    assert (first.headers["Cache-Control"], client.get("/help/", headers=seen).status_code) == (
        "no-cache",
        304,
    )
    (site / "index.html").write_text("another version")
    again = client.get("/help/", headers=seen)
    assert (again.status_code, again.text) == (200, "another version")


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "decisions/../../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "..\\secret.txt",
        "/etc/passwd",
        ".hidden",
        "decisions",
        "decisions/",
        "index.html\0",
        "index.html%00",
        "missing.html",
    ],
)
def test_no_name_leads_to_anything_else(client: FlaskClient, site: Path, name: str) -> None:
    answer = client.get(f"/help/{name}")
    assert (answer.status_code, answer.json and answer.json["code"]) == (404, "NOT_FOUND")


def test_without_a_built_site_the_answer_says_how_to_build_it(client: FlaskClient, folder: Path) -> None:
    answer = client.get("/help/")
    assert answer.status_code == 404
    assert answer.json and "make docs" in answer.json["hint"]


def test_a_site_that_is_built_meanwhile_is_served(client: FlaskClient, folder: Path) -> None:
    assert client.get("/help/").status_code == 404
    folder.mkdir()
    (folder / "index.html").write_text("built")
    assert client.get("/help/").text == "built"
