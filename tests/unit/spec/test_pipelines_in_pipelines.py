"""Steps that run pipelines: what a document may say, and what its normal form is."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec import ChildPipeline, LoopStep, MapSpec, parse_spec


def read(*steps: dict[str, Any]) -> Any:
    return parse_spec({"id": "p", "steps": list(steps)})


def mistakes(*steps: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refused:
        read(*steps)
    return {each.field: each.message for each in refused.value.errors}


@pytest.mark.parametrize(
    ("step", "decides"),
    [
        ({"pipeline": "inner"}, ChildPipeline("inner")),
        ({"pipeline": {"id": "inner", "version": 3}}, ChildPipeline("inner", 3)),
        ({"loop": {"pipeline": "inner", "maxIterations": 3}}, LoopStep(ChildPipeline("inner"), 3)),
        (
            {
                "loop": {
                    "pipeline": "inner",
                    "maxIterations": 3,
                    "until": "last.ok && loop.index > 0",
                    "delay": "1m",
                    "collect": True,
                }
            },
            LoopStep(ChildPipeline("inner"), 3, "last.ok && loop.index > 0", 60_000, True),
        ),
    ],
)
def test_a_step_runs_a_pipeline_and_its_normal_form_parses_to_itself(
    step: dict[str, Any], decides: object
) -> None:
    spec = read({"id": "a", **step})
    assert spec.steps[0].decides == decides
    assert parse_spec(spec.to_json()) == spec
    assert spec.tasks == frozenset()


def test_params_make_edges_as_those_of_tasks_do() -> None:
    spec = read(
        {"id": "a", "task": "t"},
        {"id": "b", "task": "t", "needs": []},
        {"id": "c", "pipeline": "inner", "needs": [], "params": {"x": "${steps.a}"}},
        {"id": "d", "loop": {"pipeline": "p2", "maxIterations": 1, "until": "steps.b.ok"}, "needs": []},
    )
    assert [each.needs for each in spec.steps] == [(), (), ("a",), ("b",)]


def test_a_map_goes_with_a_pipeline() -> None:
    spec = read({"id": "a", "pipeline": "inner", "map": {"over": "${input.list}", "maxParallel": 7}})
    assert spec.steps[0].map == MapSpec("${input.list}", None, 7)
    assert (spec.steps[0].kind, spec.steps[0].has_task) == ("map", False)
    assert parse_spec(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("step", "field", "why"),
    [
        ({"pipeline": 3}, "steps[0].pipeline", "must be the id of a pipeline"),
        ({"pipeline": {"version": 3}}, "steps[0].pipeline.id", "is required"),
        ({"pipeline": {"id": "x", "version": 0}}, "steps[0].pipeline.version", "a number of a version"),
        ({"pipeline": "x", "timeout": 3}, "steps[0].timeout", "is not allowed next to `pipeline`"),
        ({"pipeline": "x", "task": "t"}, "steps[0].pipeline", "cannot be given together with `task`"),
        ({"pipeline": "x", "params": {"a": "${loop.index}"}}, "steps[0].params.a", "only in a loop"),
        ({"loop": {"maxIterations": 3}}, "steps[0].loop.pipeline", "is required"),
        ({"loop": {"pipeline": "x"}}, "steps[0].loop.maxIterations", "a loop must end"),
        (
            {"loop": {"pipeline": "x", "maxIterations": 10_001}},
            "steps[0].loop.maxIterations",
            "1 to 10,000",
        ),
        (
            {"loop": {"pipeline": "x", "maxIterations": 1, "until": "last ="}},
            "steps[0].loop.until",
            "is not an expression",
        ),
        (
            {"loop": {"pipeline": "x", "maxIterations": 1, "untl": "last"}},
            "steps[0].loop.untl",
            "did you mean 'until'?",
        ),
        (
            {"loop": {"pipeline": "x", "maxIterations": 1}, "map": {"over": [1]}},
            "steps[0].map",
            "is not allowed next to `loop`",
        ),
        (
            {"task": "t", "map": {"over": [1], "maxParallel": 3}},
            "steps[0].map.maxParallel",
            "write the task as the only one of `map.steps`, or give it a `concurrency`",
        ),
        (
            {"pipeline": "x", "map": {"over": [1], "maxParallel": 0}},
            "steps[0].map.maxParallel",
            "1 to 1,000",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(step: dict[str, Any], field: str, why: str) -> None:
    assert why in mistakes({"id": "a", **step})[field]
