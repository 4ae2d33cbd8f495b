"""A person logs in at an OpenID provider in a real browser, and logs out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.api_server import running_api
from support.browser import PHONE, WIDE, Visit, visiting
from support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider, running_provider
from support.run_driver import RunDriver

from pipeweave.orchestrator.security import WRITE
from pipeweave.settings import Settings
from pipeweave.settings.oidc import GroupRole


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdProvider]:
    with running_provider() as provider:
        provider.is_asking = True
        yield provider


@pytest.fixture(scope="module")
def own_server(
    database_url: str, broker_url: str, tmp_path_factory: pytest.TempPathFactory, provider: OpenIdProvider
) -> Iterator[str]:
    """An API of its own, whose people come from the provider."""
    folder: Path = tmp_path_factory.mktemp("oidc")
    settings = Settings(
        database_url=database_url,
        broker_url=broker_url,
        data_dir=str(folder),
        secret_key="5e" * 32,
        oidc_issuer=provider.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        oidc_roles=(GroupRole("engineers", ("*",), (WRITE,)),),
    )
    with running_api(settings, folder) as api:
        yield api.url


@pytest.fixture
def stranger(
    browser: Browser, own_server: str, driver: RunDriver, provider: OpenIdProvider
) -> Iterator[Visit]:
    with visiting(browser, own_server, driver.tenant) as visit:
        visit.expected += [f"asked another host: {provider.url}/authorize?", f"{provider.url}/favicon.ico"]
        yield visit


def test_a_person_comes_in_by_the_provider_and_goes_out(stranger: Visit) -> None:
    page = stranger.page
    page.goto(f"{stranger.root}/runs?status=failed")
    assert "/ui/login?next=" in page.url
    stranger.axe_in_both_themes(WIDE, PHONE)
    page.get_by_role("link", name="Log in with your organization").click()
    stranger.see("Continue as ann")
    page.get_by_role("link", name="Continue as ann").click()
    page.wait_for_url(f"{stranger.root}/runs?status=failed")
    page.wait_for_load_state()
    (cookie,) = stranger.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax" and page.evaluate("document.cookie") == ""
    page.reload()
    stranger.see("No run matches.")
    page.locator("details.me summary").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/ui/login")
    assert stranger.context.cookies() == []


def test_who_has_no_role_sees_why(stranger: Visit, provider: OpenIdProvider) -> None:
    provider.person["groups"] = ["guests"]
    stranger.expected.append("status of 403")
    page = stranger.page
    page.goto(f"{stranger.root}/runs")
    page.get_by_role("link", name="Log in with your organization").click()
    page.get_by_role("link", name="Continue as ann").click()
    stranger.see("guests")
    stranger.axe()
    provider.person["groups"] = ["engineers"]
