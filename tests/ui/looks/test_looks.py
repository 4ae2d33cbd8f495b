"""Every screen looks as it did when somebody last looked at it; `make looks` renews the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page
from support.browser import PHONE
from support.empty_broker import NOWHERE, EmptyBroker
from support.frozen import FROZEN
from support.looks import MOST_BYTES, MOST_BYTES_IN_ALL, PICTURES, RENEWED, Looks, contact_sheet
from support.servers import new_database, wait_until
from support.stage import staged
from support.studio import PHONES, SCREENS, TENANT, Studio

from pipeweave.api import create_app
from pipeweave.api.ui import periods
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import ADMIN, READ, WRITE, access_tokens
from pipeweave.settings import Settings
from pipeweave.up.postgres import Postgres


@dataclass
class Stage:
    """The studio, and the application that shows it."""

    studio: Studio
    app: Flask
    token: str


@pytest.fixture(scope="module")
def stage(
    postgres_server: Postgres, database_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    with new_database(postgres_server, "looks", database_template) as url:
        studio = Studio(url, tmp_path_factory.mktemp("looks"))
        studio.tell()
        settings = Settings(
            database_url="postgresql://db/pipeweave",
            broker_url=NOWHERE,
            data_dir=".pipeweave",
            secret_key="5e" * 32,
            ui_parts=True,
        )
        deployment = Deployment(settings, studio.database, studio.values, EmptyBroker(settings))
        with studio.database.transaction() as tx:
            token = access_tokens.create_token(
                tx, name="alice", tenants=(TENANT,), scopes=(READ, WRITE, ADMIN)
            )
        with patch.object(periods, "_now", lambda: FROZEN):
            yield Stage(studio, create_app(settings, deployment), token)
        studio.close()


@pytest.fixture(scope="module")
def looks(browser: Browser) -> Looks:
    return Looks(browser)


def settled(page: Page, asked: list[str]) -> None:
    """Wait until the page has drawn what scripts draw."""
    for element in ("pw-timeline", "pw-matrix"):
        if page.locator(element).count():
            page.locator(f"{element} [data-drawn]").first.wait_for()
    if page.locator("pw-graph[states]").count():
        wait_until(lambda: page.title() != "" and any("/state" in each for each in asked), 30)
    # Two frames after the last change.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def look_at(browser: Browser, stage: Stage, looks: Looks, names: Iterable[str], kind: str) -> list[str]:
    """What is different on these screens."""
    found: list[str] = []
    options = {"dark": {"color_scheme": "dark"}, "phone": {"viewport": PHONE}}.get(kind, {})
    with staged(browser, stage.app, TENANT, stage.token, FROZEN, **options) as visit:
        answered: list[str] = []
        visit.page.on("requestfinished", lambda request: answered.append(request.url))
        for name in names:
            answered.clear()
            page = visit.open(SCREENS[name](stage.studio))
            settled(page, answered)
            words = f"{name}-phone" if kind == "phone" else name
            found += looks.differences(looks.take(page, f"{name}-{kind}", words))
    return found


def test_every_screen_looks_as_it_did(browser: Browser, stage: Stage, looks: Looks) -> None:
    assert look_at(browser, stage, looks, SCREENS, "light") == []


def test_every_screen_looks_as_it_did_in_the_dark(browser: Browser, stage: Stage, looks: Looks) -> None:
    if not looks.is_comparable:
        pytest.skip("another Chromium or other fonts: the words were compared in the light")
    assert look_at(browser, stage, looks, SCREENS, "dark") == []


def test_the_screens_of_a_phone_look_as_they_did(browser: Browser, stage: Stage, looks: Looks) -> None:
    assert look_at(browser, stage, looks, PHONES, "phone") == []


def test_pictures_are_small() -> None:
    sizes = {each.name: each.stat().st_size for each in PICTURES.glob("*.png")}
    assert [name for name, size in sizes.items() if size > MOST_BYTES] == []
    assert sum(sizes.values()) <= MOST_BYTES_IN_ALL


@pytest.mark.skipif(not RENEWED, reason="pictures are only compared")
def test_whoever_renews_looks_at_them(capsys: pytest.CaptureFixture[str]) -> None:
    sheet: Path = contact_sheet()
    with capsys.disabled():
        print(f"look at {sheet}")
