"""Tests give secrets to tasks, and see what a deployment would store of them."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import Context, TaskError, pipeline, secret, task
from pipeweave.errors import SecretDenied, SecretNotFound
from pipeweave.testing import run_pipeline, run_task

seen: list[str] = []


@task
def connect(ctx: Context, password: str = "") -> Any:
    seen.append(password or ctx.secret("DB"))
    return {"url": f"postgresql://shop:{seen[-1]}@db"}


@task(idempotency_key=lambda given: f"{given['password']}")
def keyed(ctx: Context, password: str) -> int:
    seen.append(password)
    return len(seen)


@pipeline
def shop() -> Any:
    return connect(secret("DB"))


SECRETS = {"DB": "hunter2hunter2"}


def test_a_task_gets_a_secret_and_its_result_does_not_show_it() -> None:
    assert run_task(connect, secrets=SECRETS).output == {"url": "postgresql://shop:***@db"}
    assert seen[-1] == "hunter2hunter2"


def test_a_param_is_resolved_at_the_call() -> None:
    result = run_pipeline(shop, secrets=SECRETS).raise_error()
    assert result.output == {"url": "postgresql://shop:***@db"}
    assert seen[-1] == "hunter2hunter2"


def test_a_secret_that_the_test_does_not_give_is_missing() -> None:
    with pytest.raises(SecretNotFound, match="'DB'"):
        run_task(connect)
    assert isinstance(run_pipeline(shop).steps["connect"].error, SecretNotFound)
    with pytest.raises(SecretDenied, match="plain function"):
        connect()


def test_a_key_is_made_of_the_reference() -> None:
    document = {
        "id": "p",
        "steps": [
            {"id": "a", "task": "keyed", "params": {"password": "${secret.DB}"}},
            {"id": "b", "task": "keyed", "params": {"password": "${secret.DB}"}},
        ],
    }
    keys: list[Any] = []
    renewed = iter(["first-value", "other-value"])

    class Renewed(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            keys.append(name)
            return next(renewed)

    run = run_pipeline(document, secrets=Renewed(DB="")).raise_error()
    assert run.steps["a"].output == run.steps["b"].output
    assert keys == ["DB", "DB"]


def test_an_error_does_not_show_a_secret_in_the_context_of_its_handler() -> None:
    def fails(ctx: Context) -> None:
        raise TaskError(f"login with {ctx.secret('DB')} failed", details={"password": ctx.secret("DB")})

    document = {
        "id": "p",
        "steps": [
            {"id": "a", "task": "fails", "continueOnError": True},
            {"id": "b", "transform": {"output": "${errors.a}"}, "needs": ["a"]},
        ],
    }
    run = run_pipeline(document, tasks={"fails": fails}, secrets=SECRETS).raise_error()
    assert "hunter2" not in str(run.output)
    assert run.output["message"] == "login with *** failed"
