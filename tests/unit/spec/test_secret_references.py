"""Only the params of a step with a task may name a secret: nobody else resolves one."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import pipeline, secret, task
from pipeweave.errors import InvalidSpec
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.spec import parse_spec
from pipeweave.spec.references import compile_value, resolve

STEP: dict[str, Any] = {"id": "a", "task": "t", "params": {"password": "${secret.DB}"}}


def document(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"id": "p", "steps": list(steps), **more}


@pytest.mark.parametrize(
    "step",
    [
        STEP,
        {**STEP, "params": {"headers": {"Authorization": "Bearer ${secret.TOKEN}"}}},
        {**STEP, "params": {"a": '${secret["db.password"]}', "b": "${secret._x-1}"}},
        {**STEP, "map": ["1", "2"]},
        {"id": "l", "loop": {"steps": [STEP], "maxIterations": 2, "until": "loop.index >= 1"}},
        {"id": "m", "map": {"over": [1], "steps": [STEP]}},
        {"id": "e", "task": "t", "onError": [STEP]},
    ],
)
def test_the_params_of_a_task_may_name_secrets(step: Any) -> None:
    assert parse_spec(document(step)).steps


@pytest.mark.parametrize(
    ("field", "step"),
    [
        ("steps[1].condition", {"id": "b", "task": "t", "condition": "secret.DB == 'guess'"}),
        (
            "steps[1].choice[0].condition",
            {"id": "b", "choice": [{"condition": "secret.DB == 'x'", "next": []}]},
        ),
        ("steps[1].transform.output", {"id": "b", "transform": {"output": "${secret.DB}"}}),
        ("steps[1].map", {"id": "b", "task": "t", "map": "${[secret.DB]}"}),
        ("steps[1].params.x", {"id": "b", "pipeline": "q", "params": {"x": "${secret.DB}"}}),
        (
            "steps[1].onError.params.x",
            {"id": "b", "task": "t", "onError": {"pipeline": "q", "params": {"x": "${secret.DB}"}}},
        ),
        ("steps[1].approval.title", {"id": "b", "approval": {"title": "${secret.DB}"}}),
        ("steps[1].signal", {"id": "b", "signal": "${secret.DB}"}),
        ("steps[1].sleep", {"id": "b", "sleep": "${secret.DB}"}),
    ],
)
def test_what_the_engine_evaluates_may_not_name_a_secret(field: str, step: Any) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(document(STEP, step))
    [fault] = [each for each in refused.value.errors if "secret" in each.message]
    assert fault.field.startswith(field.partition(".params")[0])
    assert "only the params of a step with a task may hold a secret" in fault.message


@pytest.mark.parametrize("more", [{"output": "${secret.DB}"}, {"variables": {"v": "${secret.DB}"}}])
def test_outputs_and_variables_may_not_name_a_secret(more: Any) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(document(STEP, **more))
    assert any("secret.DB" in each.message for each in refused.value.errors)


@pytest.mark.parametrize(
    "text",
    ["${secret}", "${secret.DB.user}", "${secret[0]}", '${secret["a/b"]}', '${secret[".."]}', "${secret[*]}"],
)
def test_a_name_that_no_secret_can_have_is_refused_where_it_is_written(text: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(document({**STEP, "params": {"password": text}}))
    assert [each.field for each in refused.value.errors] == ["steps[0].params.password"]


def test_what_is_wanted_of_params_names_their_secrets_apart_from_the_values_of_the_run() -> None:
    params = {"a": "${secret.DB}", "b": "x ${secret.MAIL} ${input.c}"}
    wanted = Wanted.of(compile_value(params).references)
    assert wanted.secrets == {"DB", "MAIL"}
    assert wanted.roots == {"input"}
    scope = {"secret": {"DB": "1", "MAIL": "2"}}
    assert resolve(params, input={"c": 3}, steps={}, scope=scope) == {"a": "1", "b": "x 2 3"}


def test_a_pipeline_function_names_a_secret() -> None:
    @task
    def connect(password: str) -> None: ...

    @pipeline
    def shop() -> Any:
        return connect("Basic " + secret("DB"))

    assert shop.spec.to_json()["steps"][0]["params"] == {"password": "${'Basic ' + secret.DB}"}
    for name in ("", "a/b", ".."):
        with pytest.raises(InvalidSpec, match="not the name of a secret"):
            secret(name)
