"""A step of a document may say what the call of its task may use."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec import parse_spec


def document(sandbox: Any, **members: Any) -> dict[str, Any]:
    return {"id": "boxed", "steps": [{"id": "a", "task": "t", **members, "sandbox": sandbox}]}


def test_a_sandbox_is_kept_with_the_members_that_are_written() -> None:
    written = {"memory": "256M", "cpu": "10s", "files": ["tmp"], "network": False}
    for each in (written, {"cpu": 2}, {"network": ["api.example.com:443"]}):
        spec = parse_spec(document(each))
        assert spec.steps[0].sandbox == each
        stored = spec.to_json()
        assert stored["steps"][0]["sandbox"] == each
        assert parse_spec(stored).to_json() == stored


def test_a_step_without_one_reads_as_ever() -> None:
    spec = parse_spec(document(None))
    assert spec.steps[0].sandbox is None
    assert "sandbox" not in spec.to_json()["steps"][0]


@pytest.mark.parametrize(
    ("sandbox", "field"),
    [
        ("small", "steps[0].sandbox"),
        ({"memory": "1M"}, "steps[0].sandbox.memory"),
        ({"cpu": []}, "steps[0].sandbox.cpu"),
        ({"files": "tmp"}, "steps[0].sandbox.files"),
        ({"files": ["home"]}, "steps[0].sandbox.files"),
        ({"network": True}, "steps[0].sandbox.network"),
        ({"network": ["a"]}, "steps[0].sandbox.network[0]"),
        ({"disk": "1G"}, "steps[0].sandbox.disk"),
    ],
)
def test_a_mistake_names_its_field(sandbox: Any, field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(document(sandbox))
    assert [each.field for each in caught.value.errors] == [field]


@pytest.mark.parametrize(
    "members", [{"adapter": "http", "action": "get"}, {"sleep": "1s"}, {"signal": "x"}, {"pipeline": "other"}]
)
def test_what_runs_no_task_of_users_has_no_sandbox(members: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({"id": "boxed", "steps": [{"id": "a", **members, "sandbox": {}}]})
    assert "steps[0].sandbox" in [each.field for each in caught.value.errors]
