"""What an HTTP worker reads as the input of an item of a map."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.orchestrator.dispatch.item_inputs import item_input, item_name
from pipeweave.spec import StepSpec, parse_spec


def step(params: dict[str, Any] | None, name: str | None) -> StepSpec:
    members = {} if params is None else {"params": params}
    return parse_spec(
        {"id": "p", "steps": [{"id": "m", "task": "t", "map": {"over": [1], "as": name}, **members}]}
    ).by_id["m"]


@pytest.mark.parametrize(
    ("params", "name", "parameters", "expected"),
    [
        (None, None, None, 7),
        (None, None, (), 7),
        (None, "order", None, {"order": 7}),
        (None, None, ("order", "rate"), {"order": 7, "rate": "of the run"}),
        (None, "rate", ("order", "rate"), {"rate": 7}),
        ({"order": 1}, None, ("order", "rate"), {"order": 1, "rate": 7}),
        ({"order": 1}, None, None, {"order": 1, "item": 7}),
        ({"order": 1}, "rate", None, {"order": 1, "rate": 7}),
    ],
)
def test_the_item_has_the_name_that_a_celery_worker_would_give_it(
    params: dict[str, Any] | None, name: str | None, parameters: tuple[str, ...] | None, expected: Any
) -> None:
    found = item_name(step(params, name), parameters)
    value = item_input(
        7, found, params=params, run_input={"rate": "of the run", "else": 1}, parameters=parameters
    )
    assert value == expected
