"""Which requests may use a browser's session, and over which lines one may begin."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Request, Response
from werkzeug.test import EnvironBuilder

from pipeweave.api.http import browser
from pipeweave.errors import CrossSite, Forbidden

HOST = "pipes.example.com"
SECRET = "s" * 43


def request(
    path: str = "/api/runs", method: str = "GET", *, base: str = f"https://{HOST}", **headers: str
) -> Request:
    name = browser.SECURE_NAME if base.startswith("https") else f"pipeweave-{base.rpartition(':')[2]}"
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    cookie = named.pop("Cookie", f"{name}={SECRET}")
    builder = EnvironBuilder(path, base, method=method, headers={"Cookie": cookie, **named})
    return Request(builder.get_environ())


def test_a_page_of_this_server_uses_its_session() -> None:
    for method in ("GET", "POST", "PUT", "DELETE"):
        assert browser.session_of(request(method=method, Sec_Fetch_Site="same-origin")) == SECRET


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "nonsense", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_what_another_site_sends_to_the_api_is_refused(site: str, method: str) -> None:
    with pytest.raises(CrossSite):
        browser.session_of(request(method=method, Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate"))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_a_person_opens_a_page_from_anywhere(site: str) -> None:
    assert (
        browser.session_of(request("/ui/default/runs", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate"))
        == SECRET
    )


@pytest.mark.parametrize(("method", "mode"), [("POST", "navigate"), ("GET", "no-cors"), ("GET", "cors")])
def test_a_page_of_another_site_neither_posts_nor_loads(method: str, mode: str) -> None:
    with pytest.raises(CrossSite):
        browser.session_of(
            request("/ui/default/runs", method, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode=mode)
        )


@pytest.mark.parametrize(
    ("origin", "is_own"),
    [
        ("http://10.0.0.5:3000", True),
        ("http://10.0.0.5:3001", False),
        ("http://evil.example", False),
        ("http://10.0.0.5:3000.evil.example", False),
        ("null", False),
    ],
)
def test_without_fetch_metadata_the_origin_decides(origin: str, is_own: bool) -> None:
    asked = request(method="POST", base="http://10.0.0.5:3000", Origin=origin)
    if is_own:
        assert browser.session_of(asked) == SECRET
    else:
        with pytest.raises(CrossSite):
            browser.session_of(asked)


def test_without_any_word_of_its_origin_a_request_only_reads() -> None:
    assert browser.session_of(request(base="http://10.0.0.5:3000")) == SECRET
    with pytest.raises(CrossSite):
        browser.session_of(request(method="POST", base="http://10.0.0.5:3000"))


def test_a_request_with_a_token_or_without_a_cookie_has_no_session() -> None:
    assert browser.session_of(request(Authorization="Bearer pw_x", Sec_Fetch_Site="cross-site")) is None
    assert browser.session_of(request(Cookie="other=1", Sec_Fetch_Site="cross-site")) is None
    assert browser.session_of(request(Cookie=f"{browser.SECURE_NAME}=", Sec_Fetch_Site="cross-site")) is None


def test_over_https_a_cookie_that_plain_http_could_have_set_does_not_count() -> None:
    planted = request(Cookie=f"pipeweave-443={SECRET}; pipeweave={SECRET}", Sec_Fetch_Site="same-origin")
    assert browser.session_of(planted) is None


def test_a_login_from_another_site_is_refused() -> None:
    browser.require_own_page(request("/ui/login", "POST", Cookie="", Sec_Fetch_Site="same-origin"))
    for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Origin": "https://evil.example"}, {}):
        with pytest.raises(CrossSite):
            browser.require_own_page(request("/ui/login", "POST", Cookie="", **headers))


@pytest.mark.parametrize(
    ("base", "is_insecure_allowed", "is_private"),
    [
        ("https://pipes.example.com", False, True),
        ("http://127.0.0.1:3000", False, True),
        ("http://localhost:3000", False, True),
        ("http://localhost", False, True),
        ("http://[::1]:3000", False, True),
        ("http://pipes.example.com", False, False),
        ("http://localhost.evil.example:3000", False, False),
        ("http://10.0.0.5:3000", False, False),
        ("http://10.0.0.5:3000", True, True),
    ],
)
def test_a_session_begins_only_over_a_line_that_others_cannot_read(
    base: str, is_insecure_allowed: bool, is_private: bool
) -> None:
    asked = request("/ui/login", "POST", base=base)
    if is_private:
        browser.require_private_line(asked, is_insecure_allowed=is_insecure_allowed)
    else:
        with pytest.raises(Forbidden, match="plain HTTP"):
            browser.require_private_line(asked, is_insecure_allowed=is_insecure_allowed)


def attributes(response: Response) -> tuple[str, dict[str, Any]]:
    first, *rest = response.headers["Set-Cookie"].split("; ")
    return first, {part.partition("=")[0]: part.partition("=")[2] for part in rest}


def test_over_https_the_cookie_is_for_this_host_alone() -> None:
    response = Response()
    browser.keep(request(), response, SECRET)
    first, rest = attributes(response)
    assert first == f"__Host-pipeweave={SECRET}"
    assert rest.pop("Expires")
    assert rest == {"Secure": "", "HttpOnly": "", "SameSite": "Lax", "Path": "/", "Max-Age": "604800"}


def test_over_plain_http_two_servers_of_one_machine_have_two_cookies() -> None:
    names = set()
    for port in (3000, 3001):
        response = Response()
        browser.keep(request(base=f"http://127.0.0.1:{port}"), response, SECRET)
        first, rest = attributes(response)
        names.add(first.partition("=")[0])
        assert "HttpOnly" in rest and "Secure" not in rest and rest["SameSite"] == "Lax"
    assert names == {"pipeweave-3000", "pipeweave-3001"}


def test_a_logout_clears_what_the_browser_kept() -> None:
    response = Response()
    browser.forget(request(), response)
    first, rest = attributes(response)
    assert first == "__Host-pipeweave=" and rest["Max-Age"] == "0"
    assert response.headers["Clear-Site-Data"] == '"cache"'
