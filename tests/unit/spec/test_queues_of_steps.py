"""The queue of a step, in documents and in Python."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import pipeline, task
from pipeweave.errors import InvalidSpec
from pipeweave.spec.document import parse_spec


@task
def render(scene: str = "") -> str:
    return scene


@pipeline
def pictures() -> None:
    render.options(step_id="big", queue="gpu")()


def test_a_document_and_a_function_choose_a_queue_alike() -> None:
    spec = parse_spec({"id": "pictures", "steps": [{"id": "big", "task": "render", "queue": "gpu"}]})
    assert spec.steps[0].queue == "gpu"
    assert pictures.spec.steps[0].queue == "gpu"
    assert parse_spec(spec.to_json()) == spec
    assert spec.to_json()["steps"][0]["queue"] == "gpu"


def test_a_step_without_a_queue_reads_as_before() -> None:
    spec = parse_spec({"id": "pictures", "steps": [{"id": "big", "task": "render", "queue": None}]})
    assert "queue" not in spec.to_json()["steps"][0]


@pytest.mark.parametrize("wrong", ["", "a/b", "a#b", "!http", "x" * 101, "a b", 7, ["gpu"], True, "gpu\n"])
def test_a_name_that_could_be_another_queue_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({"id": "p", "steps": [{"task": "t", "queue": wrong}]})
    assert caught.value.errors[0].field == "steps[0].queue"


def test_only_steps_with_a_task_have_a_queue() -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({"id": "p", "steps": [{"id": "s", "sleep": "1m", "queue": "gpu"}]})
    assert caught.value.errors[0].field == "steps[0].queue"
