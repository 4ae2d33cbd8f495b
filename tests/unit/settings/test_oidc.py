"""The settings of the login by an OpenID provider: what belongs together, and what is nonsense."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeweave import settings
from pipeweave.errors import InvalidSetting
from pipeweave.settings.oidc import GroupRole, roles_text

ROLES = '{"engineers": {"tenants": ["shop", "*"], "scopes": ["write", "orchestrator:read"]}}'
WHOLE = {
    "OIDC_ISSUER": "https://login.example.com/",
    "OIDC_CLIENT_ID": "pipeweave",
    "OIDC_ROLES": ROLES,
    "PIPEWEAVE_SECRET_KEY": "5e" * 32,
}


def loaded(**more: str) -> settings.Settings:
    return settings.load({**WHOLE, **more})


def refused(**more: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSetting) as error:
        loaded(**more)
    return [(each.field, each.message) for each in error.value.errors]


def test_an_issuer_is_kept_as_it_is_written() -> None:
    read = loaded(OIDC_SCOPES="openid, email  offline_access")
    assert read.oidc_issuer == "https://login.example.com/"
    assert read.oidc_scopes == "openid email offline_access"
    role = GroupRole("engineers", ("shop", "*"), ("orchestrator:write", "orchestrator:read"))
    assert read.oidc_roles == (role,)
    assert json.loads(roles_text(read.oidc_roles))["engineers"]["scopes"] == ["write", "read"]


@pytest.mark.parametrize("name", ["OIDC_CLIENT_ID", "OIDC_ROLES", "PIPEWEAVE_SECRET_KEY"])
def test_what_an_issuer_needs_is_named(name: str) -> None:
    assert refused(**{name: ""}) == [(name, "is required next to OIDC_ISSUER")]


def test_a_login_by_the_provider_alone_needs_one() -> None:
    with pytest.raises(InvalidSetting, match="OIDC_ISSUER is required where UI_LOGIN is oidc"):
        settings.load({"UI_LOGIN": "oidc"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("engineers", "must be JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "must be a JSON object"),
        ('{"a": ["shop"]}', "must be an object of tenants and scopes"),
        ('{"a": {"tenants": ["shop"]}}', "must be an object of tenants and scopes"),
        ('{"a": {"tenants": ["shop"], "scopes": ["read"], "more": 1}}', "must be an object of tenants"),
        ('{"a": {"tenants": [], "scopes": ["read"]}}', "tenants must be a list of texts"),
        ('{"a": {"tenants": "shop", "scopes": ["read"]}}', "tenants must be a list of texts"),
        ('{"a": {"tenants": ["a b"], "scopes": ["read"]}}', "tenants"),
        (
            '{"a": {"tenants": ["shop"], "scopes": ["worker"]}}',
            "scopes must be of read, approve, write, admin",
        ),
        ('{"a": {"tenants": ["shop"], "scopes": [1]}}', "scopes must be a list of texts"),
    ],
)
def test_roles_that_say_nothing_are_refused(text: str, words: str) -> None:
    ((field, message),) = [each for each in refused(OIDC_ROLES=text) if each[0] == "OIDC_ROLES"][:1]
    assert field == "OIDC_ROLES" and words in message


@pytest.mark.parametrize("text", ["login.example.com", "ftp://x", "https://x/?a=b", "https://x/#a"])
def test_what_is_no_issuer_is_refused(text: str) -> None:
    assert refused(OIDC_ISSUER=text)[0][0] == "OIDC_ISSUER"


def test_the_secret_of_the_client_is_never_shown() -> None:
    rows: Any = settings.explain({**WHOLE, "OIDC_CLIENT_SECRET": "very-secret"})
    shown = {row.name: row.value for row in rows}
    assert shown["OIDC_CLIENT_SECRET"] == "***" and "very-secret" not in str(rows)
    assert json.loads(shown["OIDC_ROLES"]) == {
        "engineers": {"tenants": ["shop", "*"], "scopes": ["write", "read"]}
    }


@pytest.mark.parametrize("text", ["10.0.0.0/8, 192.0.2.1", "2001:db8::/32"])
def test_trusted_proxies_are_networks(text: str) -> None:
    assert settings.load({"TRUSTED_PROXIES": text}).trusted_proxies
    with pytest.raises(InvalidSetting, match="must be networks"):
        settings.load({"TRUSTED_PROXIES": f"{text}, private"})
