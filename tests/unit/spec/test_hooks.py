"""Hooks of pipelines as code and documents declare them."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import Webhook, pipeline, task
from pipeweave.errors import InvalidSpec
from pipeweave.spec import HookSpec, parse_spec

STEPS = [{"task": "a"}]


@task
def hooked() -> int:
    return 1


@pipeline
def alert_people() -> None:
    hooked()


@pipeline(
    on_failure=[alert_people, "other", Webhook("https://alerts.example/runs", secret="ops")],
    on_success=Webhook("https://alerts.example/done?of=1"),
)
def with_hooks() -> None:
    hooked()


def test_code_names_pipelines_and_urls() -> None:
    assert with_hooks.spec.hooks == {
        "onSuccess": (HookSpec(url="https://alerts.example/done?of=1"),),
        "onFailure": (
            HookSpec(pipeline="alert_people"),
            HookSpec(pipeline="other"),
            HookSpec(url="https://alerts.example/runs", secret="ops"),
        ),
    }


def test_a_document_says_the_same_and_is_read_again() -> None:
    hooks = {"onPartial": "other", "onFailure": [{"url": "http://[::1]:80/x"}, "b"], "onSuccess": []}
    spec = parse_spec({"steps": STEPS, **hooks}, id="files")
    url = {"url": "http://[::1]:80/x", "secret": "default"}
    assert spec.to_json()["onFailure"] == [url, {"pipeline": "b"}]
    assert "onSuccess" not in spec.to_json()
    assert parse_spec(spec.to_json()) == spec
    assert spec.spec_hash != parse_spec({"steps": STEPS}, id="files").spec_hash


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        (7, {"onFailure"}),
        ([7, {"pipeline": "a b"}], {"onFailure[0]", "onFailure[1].pipeline"}),
        ("files", {"onFailure"}),
        ({}, {"onFailure"}),
        ({"pipeline": "a", "url": "http://x"}, {"onFailure"}),
        ({"pipeline": "a", "secret": "s", "x": 1}, {"onFailure.secret", "onFailure.x"}),
        ({"url": "ftp://x"}, {"onFailure.url"}),
        ({"url": "https://user:pw@x/"}, {"onFailure.url"}),
        ({"url": "https://x:99999/", "secret": ""}, {"onFailure.url", "onFailure.secret"}),
        ({"url": "https://x/ y"}, {"onFailure.url"}),
        (["a"] * 6, {"onFailure"}),
    ],
)
def test_all_mistakes_are_named(given: Any, fields: set[str]) -> None:
    with pytest.raises(InvalidSpec) as raised:
        parse_spec({"steps": STEPS, "onFailure": given}, id="files")
    assert {each.field for each in raised.value.errors} == fields
