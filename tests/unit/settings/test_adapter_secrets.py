"""ADAPTER_SECRETS is read with all its hosts, and no message repeats what may be a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeweave.errors import InvalidSetting
from pipeweave.settings import explain, load
from pipeweave.settings.adapter_secrets import secret_for

ENTRY = {"name": "shop", "value": "Bearer 0123456789", "hosts": ["api.shop.example"]}


def text(*entries: Any) -> dict[str, str]:
    return {"ADAPTER_SECRETS": json.dumps(entries)}


def test_a_secret_is_for_its_hosts_alone() -> None:
    secrets = load(text(ENTRY)).adapter_secrets
    assert secret_for(secrets, "shop", "API.shop.example") == "Bearer 0123456789"
    for name, host in (("shop", "evil.example"), ("shop", "api.shop.example.evil.example"), ("x", "a")):
        with pytest.raises(InvalidSetting) as refused:
            secret_for(secrets, name, host)
        assert "0123456789" not in f"{refused.value} {refused.value.hint}"


def test_its_value_is_never_shown() -> None:
    [row] = [each for each in explain(text(ENTRY)) if each.name == "ADAPTER_SECRETS"]
    assert row.value is not None
    assert json.loads(row.value) == [{**ENTRY, "value": "***"}]


@pytest.mark.parametrize(
    "given",
    [
        "topsecret",
        '{"topsecret": 1}',
        "[1]",
        json.dumps([{**ENTRY, "value": "topsec"}]),
        json.dumps([{**ENTRY, "value": "topsecret\nline"}]),
        json.dumps([{**ENTRY, "value": "topsecret ä"}]),
        json.dumps([{**ENTRY, "value": ["topsecret"]}]),
        json.dumps([{**ENTRY, "name": "a b"}]),
        json.dumps([{**ENTRY, "name": 3}]),
        json.dumps([{**ENTRY, "hosts": []}]),
        json.dumps([{**ENTRY, "hosts": "api.shop.example"}]),
        json.dumps([{**ENTRY, "hosts": [""]}]),
        json.dumps([{**ENTRY, "more": "topsecret"}]),
        json.dumps([ENTRY, ENTRY]),
    ],
)
def test_a_wrong_list_is_refused_without_what_it_says(given: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        load({"ADAPTER_SECRETS": given})
    [fault] = refused.value.errors
    assert fault.field == "ADAPTER_SECRETS"
    assert "topsec" not in f"{refused.value} {fault.message}"
    assert "0123456789" not in fault.message
