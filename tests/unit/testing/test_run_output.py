"""The output of a pipeline in a test: what its function returns."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import TaskError, pipeline, task
from pipeweave.errors import InputValidationFailed, InvalidSpec
from pipeweave.testing import run_pipeline


@task
def numbers(n: int) -> dict[str, Any]:
    return {"all": list(range(n)), "n": n}


@task
def double(value: int) -> int:
    return 2 * value


@task(retries=0)
def broken(value: Any) -> int:
    raise TaskError("no")


@pipeline(failure_mode="partial-merge")
def returning(n: int, kind: str = "all") -> Any:
    found = numbers(n)
    doubled = double.map(found["all"])
    lost = broken(found)
    return {"doubled": doubled, "count": found["n"], "lost": lost, "of": [kind, n, "text ${x}"]}


def test_a_pipeline_returns_what_its_function_returns() -> None:
    run = run_pipeline(returning, {"n": 2})
    assert run.status == "partial"
    assert run.output == {"doubled": [0, 2], "count": 2, "lost": None, "of": ["all", 2, "text ${x}"]}


def test_a_run_that_is_neither_completed_nor_partial_has_no_output() -> None:
    assert run_pipeline(returning, {"n": 2}, failure_mode="continue").output is None
    assert run_pipeline(returning, {"n": 2}, failure_mode="fail-fast").output is None


def test_what_returns_the_end_step_has_the_same_spec_as_what_returns_nothing() -> None:
    @pipeline(id="same")
    def silent(n: int) -> None:
        double(n)

    @pipeline(id="same")
    def telling(n: int) -> int:
        return double(n)

    assert silent.spec == telling.spec
    assert run_pipeline(telling, {"n": 4}).output == 8


def test_a_returned_value_that_is_not_json_is_refused() -> None:
    @pipeline(id="odd")
    def odd(n: int) -> Any:
        double(n)
        return {"raw": b"x"}

    with pytest.raises(InvalidSpec, match=r"pipeline 'odd': the returned value.raw is bytes"):
        _ = odd.spec


def test_an_input_that_does_not_fit_the_signature_is_refused_as_by_the_server() -> None:
    with pytest.raises(InputValidationFailed) as refused:
        run_pipeline(returning, {"nn": 2, "kind": 5})
    assert refused.value.detail == (
        "pipeline 'returning': input.nn: is not an input of this pipeline; did you mean 'n'? (and 2 more)"
    )
    assert [each.field for each in refused.value.errors] == ["nn", "n", "kind"]
