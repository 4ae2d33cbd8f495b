"""Registrations that are refused, and by which field."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from support.factories import a_task

from pipeweave.authoring.retry import Retry
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.errors import InvalidTask
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration, parse
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.store.database import Transaction

TENANT = "registry-tests"


HASH = "0123456789abcdef"
WRONG: list[tuple[str, Any]] = [
    ("id", ""),
    ("id", "a b"),
    ("id", "x" * 201),
    ("id", 5),
    ("codeHash", "ABCDEF0123456789"),
    ("codeHash", "short"),
    ("codeHash", "sha256:" + HASH),
    ("codeHash", None),
    ("allowedNext", "next"),
    ("allowedNext", ["a", "b c"]),
    ("allowedNext", [1]),
    ("timeout", 0),
    ("timeout", -1),
    ("timeout", float("nan")),
    ("timeout", float("inf")),
    ("timeout", "300"),
    ("timeout", True),
    ("retries", -1),
    ("retries", 1.5),
    ("retries", 10_001),
    ("retryBackoff", "quadratic"),
    ("retryBackoff", []),
    ("retryDelayMs", -1),
    ("maxRetryDelayMs", None),
    ("retryMultiplier", 0.5),
    ("retryMultiplier", float("inf")),
    ("retryMultiplier", True),
    ("retryJitter", -0.1),
    ("retryJitter", 1.1),
    ("retryJitter", "0.5"),
    ("retryOn", []),
    ("retryOn", "HTTP_503"),
    ("retryOn", [503]),
    ("retryOn", ["a\0b"]),
    ("retryOn", ["x" * 201]),
    ("retryOn", ["x"] * 101),
    ("rateLimit", 100),
    ("rateLimit", "100"),
    ("rateLimit", "0/s"),
    ("rateLimit", "5/min"),
    ("heartbeatIntervalMs", 0),
    ("concurrency", -1),
    ("concurrency", 2**31),
    ("concurrency", True),
    ("priority", "high"),
    ("priority", 2**31),
    ("priority", float("inf")),
    ("idempotencyTTL", 0),
    ("description", 5),
    ("description", "a\0b"),
    ("description", "x" * 10_001),
    ("inputSchema", []),
    ("inputSchema", {"fields": [{"name": "n\0"}]}),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_wrong_field_is_named_with_its_task(field: str, value: Any) -> None:
    task = {"id": "fine", "codeHash": HASH, field: value}
    with pytest.raises(InvalidTask) as refused:
        parse({"serviceId": "s", "tasks": [{"id": "first", "codeHash": HASH}, task]}, kind="python")
    assert refused.value.errors[0].field.startswith(f"tasks[1].{field}")


def test_a_misspelt_field_is_refused_with_the_right_name() -> None:
    with pytest.raises(InvalidTask, match="did you mean timeout") as refused:
        parse({"serviceId": "s", "tasks": [{"id": "a", "codeHash": HASH, "timeuot": 5}]}, kind="python")
    assert refused.value.errors[0].field == "tasks[0].timeuot"


def test_missing_fields_are_all_named() -> None:
    with pytest.raises(InvalidTask) as refused:
        parse({"serviceId": "s", "tasks": [{}, []]}, kind="python")
    assert [each.field for each in refused.value.errors] == ["tasks[0].id", "tasks[0].codeHash", "tasks[1]"]


def test_a_task_that_is_named_twice_is_refused() -> None:
    with pytest.raises(InvalidTask, match="twice"):
        parse({"serviceId": "s", "tasks": [{"id": "a", "codeHash": HASH}] * 2}, kind="python")


@pytest.mark.parametrize(
    ("service", "field"),
    [
        ({"serviceId": "a b"}, "serviceId"),
        ({"serviceId": None}, "serviceId"),
        ({"version": ""}, "version"),
        ({"version": "a\0b"}, "version"),
        ({"baseUrl": "ftp://host"}, "baseUrl"),
        ({"baseUrl": 5}, "baseUrl"),
        ({"tasks": {}}, "tasks"),
    ],
)
def test_a_wrong_service_is_refused(service: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse({"serviceId": "s", "tasks": [], **service}, kind="python")
    assert [each.field for each in refused.value.errors] == [field]


def test_an_http_service_needs_its_address() -> None:
    with pytest.raises(InvalidTask, match="baseUrl"):
        parse({"serviceId": "s", "tasks": []}, kind="http")


def test_the_registration_of_the_unmodified_node_worker_is_accepted() -> None:
    task = {
        "id": "resize",
        "codeHash": HASH,
        "allowedNext": [],
        "timeout": 300,
        "retries": 3,
        "retryBackoff": "exponential",
        "retryDelayMs": 1000,
        "maxRetryDelayMs": 86_400_000,
        "heartbeatIntervalMs": 60_000,
        "concurrency": 0,
        "priority": 100.0,
        "idempotencyTTL": 86_400,
    }
    body = {"serviceId": "images", "version": "0.1.0", "baseUrl": "http://localhost:8080", "tasks": [task]}
    assert parse(body, kind="http").tasks == [TaskRegistration("resize", HASH, allowed_next=[], priority=100)]


def test_the_options_of_the_decorator_are_registered_unchanged() -> None:
    retry = Retry(attempts=5, delay_ms=7, backoff="linear", multiplier=3, jitter=0.5, retry_on=["BUSY"])
    spec = TaskSpec(
        id="a", code_hash=HASH, name="m.a", rate_limit="5/s", idempotency_ttl=5, **retry.to_options()
    )
    (taken,) = parse({"serviceId": "s", "tasks": [spec.to_registration()]}, kind="python").tasks
    same = {each.name for each in fields(TaskRegistration)} - {"retry_on", "allowed_next", "parameters"}
    assert {name: getattr(taken, name) for name in same} == {name: getattr(spec, name) for name in same}
    assert taken.retry_on == ["BUSY"]


def test_nothing_is_stored_of_a_registration_that_is_refused(tx: Transaction) -> None:
    wrong = Registration("s", tasks=[a_task("fine"), a_task("wrong", timeout=0)])
    with pytest.raises(InvalidTask):
        service_registration.register(tx, TENANT, wrong)
    assert tx.execute("SELECT count(*) FROM services WHERE tenant_id = :t", {"t": TENANT}).scalar_one() == 0


def test_two_services_never_share_a_queue() -> None:
    assert task_rows.queue_name("a", "b.c") != task_rows.queue_name("a.b", "c")
