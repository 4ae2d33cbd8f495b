"""How two versions of a pipeline differ."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.graph.differences import differences
from pipeweave.spec import parse_spec


def between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return differences(parse_spec({"id": "p", **before}), parse_spec({"id": "p", **after}))


def test_steps_are_added_removed_and_changed() -> None:
    before = [{"task": "a"}, {"task": "b"}, {"task": "c"}]
    after = [{"task": "a"}, {"id": "b", "task": "other", "params": {"n": 1}}, {"task": "d"}]
    found = between({"steps": before}, {"steps": after})
    assert found["added"] == [{"id": "d", "task": "d", "needs": ["b"]}]
    assert found["removed"] == [{"id": "c", "task": "c", "needs": ["b"]}]
    assert found["changed"] == [
        {
            "id": "b",
            "changes": [
                {"field": "params", "before": None, "after": {"n": 1}},
                {"field": "task", "before": "b", "after": "other"},
            ],
        }
    ]
    assert found["settings"] == []


def test_settings_are_compared_too() -> None:
    steps = [{"task": "a"}]
    found = between({"steps": steps}, {"steps": steps, "failureMode": "continue", "timeoutMs": 5_000})
    assert found["settings"] == [
        {"field": "failureMode", "before": "fail-fast", "after": "continue"},
        {"field": "timeoutMs", "before": None, "after": 5_000},
    ]


def test_equal_versions_differ_in_nothing() -> None:
    same = {"steps": [{"task": "a"}]}
    assert between(same, same) == {"added": [], "removed": [], "changed": [], "settings": []}
