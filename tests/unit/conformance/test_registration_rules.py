"""The kit and the orchestrator agree about which registrations are valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from pipeweave.api.contract.requests import RegisterRequest
from pipeweave.conformance import registration as kit
from pipeweave.errors import InvalidTask
from pipeweave.orchestrator.registry import registration as orchestrator

TASK = {"id": "resize", "codeHash": "0123456789abcdef"}
SERVICE = {"serviceId": "images", "version": "1.0.0", "baseUrl": "http://10.0.0.7:8080"}

TASKS: list[tuple[str, list[Any]]] = [
    ("id", ["resize", "a.b_c~d:e@f-g", "", "with space", "a/b", "..", "x" * 201, 5, None]),
    ("codeHash", ["0" * 16, "sha256:" + "0" * 64, "f" * 64, "F" * 16, "0" * 15, "0" * 65, "", None, 16]),
    ("allowedNext", [[], ["a"], ["a", "b c"], "a", None, [5]]),
    ("timeout", [1, 0.5, 0, -1, "300", None, True, 10**9]),
    ("retries", [0, 3, 3.0, 3.5, -1, "3", True, 10**6]),
    ("retryBackoff", ["fixed", "linear", "exponential", "none", 5, None]),
    ("retryDelayMs", [0, 1000, -1, "1000", None, 1.5]),
    ("maxRetryDelayMs", [0, 86_400_000, -1, None]),
    ("heartbeatIntervalMs", [1, 60_000, 0, -5, "60000", None]),
    ("concurrency", [0, 5, -1, 2.5, None]),
    ("priority", [-5, 0, 100, "100", 1.5, None]),
    ("idempotencyTTL", [1, 86_400, 0, "86400", None]),
    ("description", ["", "words", "x" * 10_001, 5]),
    ("inputSchema", [{}, {"type": "object", "properties": {}}, [], "object", {"type": "no-such-type"}]),
    ("unknownField", [1]),
    ("timeoutMs", [1]),
    ("name", ["a name"]),
]
SERVICES: list[tuple[str, list[Any]]] = [
    ("serviceId", ["images", "", "a b", 5, None]),
    ("tokenFormat", ["sdk", "pbkdf2", "jwt", None]),
    ("storageAccess", ["token", "urls", "url"]),
    ("unknownField", [1]),
    ("version", ["1.0.0", "", "x" * 201, 5, None]),
    (
        "baseUrl",
        [
            "http://localhost:3001",
            "https://x/y",
            (
                "baseUrl",
                ["http://localhost:3001", "https://x/y", "http://[::1]:80", "http://x:99999", "http://u:p@x"],
            ),
            ("baseUrl", ["http://x?y=1", "ftp://x", "localhost:3001", "", 5, None]),
            "http://x?y=1",
            "http://x:99999",
            "http://[::1]:80",
            "ftp://x",
            "localhost:3001",
            "",
            5,
            None,
        ],
    ),
    ("tasks", [[], [TASK, TASK], [5], {}, "x"]),
]


def is_valid(document: Mapping[str, Any]) -> bool:
    """Whether the API takes this body, and the orchestrator what it says."""
    try:
        RegisterRequest.model_validate(document)
        tasks = [_plain(kit.flattened(task)) for task in document["tasks"]]
        orchestrator.parse({**document, "tasks": tasks}, kind="http")
    except (ValidationError, InvalidTask):
        return False
    return True


def _plain(task: dict[str, Any]) -> dict[str, Any]:
    return {**task, "codeHash": task["codeHash"].removeprefix("sha256:")}


@pytest.mark.parametrize(("field", "values"), TASKS, ids=[field for field, _ in TASKS])
def test_the_fields_of_a_task(field: str, values: list[Any]) -> None:
    for value in values:
        document = {**SERVICE, "tasks": [{**TASK, field: value}]}
        assert (not kit.faults(document)) == is_valid(document), value


@pytest.mark.parametrize(("field", "values"), SERVICES, ids=[field for field, _ in SERVICES])
def test_the_fields_of_a_service(field: str, values: list[Any]) -> None:
    for value in values:
        document = {**SERVICE, "tasks": [TASK], field: value}
        assert (not kit.faults(document)) == is_valid(document), value


@pytest.mark.parametrize("missing", ["id", "codeHash"])
def test_required_fields(missing: str) -> None:
    document = {**SERVICE, "tasks": [{name: value for name, value in TASK.items() if name != missing}]}
    assert kit.faults(document)
    assert not is_valid(document)


def test_numbers_in_the_wrong_unit_are_doubted() -> None:
    task = {**TASK, "heartbeatIntervalMs": 60, "timeout": 300_000}
    assert [doubt.split(" is in ")[0] for doubt in kit.doubts({**SERVICE, "tasks": [task]})] == [
        "tasks[0].heartbeatIntervalMs",
        "tasks[0].timeout",
    ]


def test_a_misspelt_field_of_the_service_is_refused() -> None:
    document = {**SERVICE, "tasks": [TASK], "storageAcess": "urls"}
    (fault,) = kit.faults(document)
    assert fault.endswith("did you mean storageAccess?")
    assert not is_valid(document)


def test_options_may_be_under_config() -> None:
    document = {**SERVICE, "tasks": [{"taskId": "a", "codeHash": "0" * 16, "config": {"timeout": 5}}]}
    assert not kit.faults(document)
    assert is_valid(document)
    assert kit.faults({**SERVICE, "tasks": [{"taskId": "a", "codeHash": "0" * 16, "config": {"tmeout": 5}}]})
