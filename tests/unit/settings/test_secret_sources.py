"""SECRETS is read with all its sources, and no message repeats what may be a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeweave.errors import InvalidSetting
from pipeweave.settings import explain, load

FILES = {"provider": "file", "path": "/run/secrets"}
VAULT = {"provider": "vault", "address": "https://vault:8200", "token": "hvs.topsecret"}
AWS = {
    "provider": "aws-secrets-manager",
    "region": "eu-central-1",
    "credentials": {"accessKeyId": "topsecret1", "secretAccessKey": "topsecret2"},
}


def text(*entries: Any) -> dict[str, str]:
    return {"SECRETS": json.dumps(entries)}


def test_all_providers_are_read_in_their_order() -> None:
    listed = load(text({"prefix": "", **FILES}, {"provider": "env"}, AWS, VAULT)).secrets
    assert [each["provider"] for each in listed] == ["file", "env", "aws-secrets-manager", "vault"]


def test_variables_are_those_of_the_tenant_of_a_deployment_with_one() -> None:
    assert load(text({"provider": "env"})).secrets == (
        {"provider": "env", "variables": "SECRET_", "tenants": ["default"]},
    )


def test_tokens_and_credentials_are_never_shown() -> None:
    [row] = [each for each in explain(text(AWS, VAULT)) if each.name == "SECRETS"]
    assert row.value is not None and "topsecret" not in row.value and "eu-central-1" in row.value


@pytest.mark.parametrize(
    "given",
    [
        "topsecret",
        '{"topsecret": 1}',
        "[1]",
        json.dumps([{"provider": "topsecret"}]),
        json.dumps([{"provider": ["file"]}]),
        json.dumps([{"provider": "file"}]),
        json.dumps([{**FILES, "token": "topsecret"}]),
        json.dumps([{**FILES, "path": 3}]),
        json.dumps([{**FILES, "tenants": []}]),
        json.dumps([{**FILES, "tenants": ["a b"]}]),
        json.dumps([{**FILES, "tenants": "topsecret"}]),
        json.dumps([{**FILES, "hosts": [1]}]),
        json.dumps([{"provider": "env", "variables": ""}]),
        json.dumps([{**VAULT, "tokenFile": "topsecret"}]),
        json.dumps([{"provider": "vault", "address": "https://vault"}]),
        json.dumps([{**VAULT, "address": "ftp://topsecret"}]),
        json.dumps([{**AWS, "credentials": {"accessKeyId": "topsecret"}}]),
        json.dumps([{**AWS, "credentials": "topsecret"}]),
    ],
)
def test_a_wrong_list_is_refused_without_what_it_says(given: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        load({"SECRETS": given})
    [fault] = refused.value.errors
    assert fault.field == "SECRETS"
    assert "topsecret" not in f"{refused.value} {fault.message}"
