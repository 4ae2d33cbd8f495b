"""Conditions that a process can evaluate before it stores a result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from pipeweave import ids
from pipeweave.orchestrator.domain.plan import compile_plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, KeptValue, TaskRun
from pipeweave.orchestrator.engine.conditions import HeldValues, known_true
from pipeweave.orchestrator.store.values import keep_inline
from pipeweave.spec import ANY, MapSpec, PipelineSpec, StepSpec

RUN = UUID("0190f5a0-0000-7000-8000-000000000000")
HELD = HeldValues({"before": [1, 2]}, True, {"go": True, "limit": 5})


def run_of(condition: str, **rules: Any) -> RunHeader:
    steps = (
        StepSpec("before", "t"),
        StepSpec("other", "t"),
        StepSpec("done", "t", ("before",)),
        StepSpec("next", "t", ("done", "other"), condition=condition, **rules),
    )
    plan = compile_plan(PipelineSpec("p", steps, variables={"most": "${input.limit + 1}"}))
    return RunHeader(RUN, "tenant", "p", 1, "fail-fast", None, None, None, plan)


def completion(output: Any) -> Completion:
    columns = (None, None, None, 50, "q", False, 1, "h")
    done = TaskRun(ids.task_run_id(RUN, 3), RUN, "done", "t", "task", TaskStatus.RUNNING, 1, *columns)
    return Completion(done, keep_inline(output))


@pytest.mark.parametrize(
    ("condition", "is_known"),
    [
        ("true", True),
        ("steps.done.n > 3", True),
        ("steps.done.n > 4", False),
        ("input.go && len(steps.before) == 2", True),
        ("variables.most == 6 && run.pipeline == 'p'", True),
        ("steps.other == null", False),  # it may be complete
        ("status.other == 'completed'", False),
        ("status.other != 'failed'", False),
        ("now() > time('2020-01-01T00:00:00Z')", False),
        ("steps.done.missing", False),
        ("steps.done.n", False),
    ],
)
def test_only_what_is_true_by_held_values_is_known(condition: str, is_known: bool) -> None:
    assert known_true(run_of(condition), completion({"n": 4}), HELD) == ({4} if is_known else set())


def test_an_input_that_is_not_held_and_an_output_in_storage_make_it_unknown() -> None:
    assert known_true(run_of("input.go"), completion(1), HeldValues()) == set()
    stored = replace(completion(1), output=KeptValue(None, "artifacts/x", 1, "h"))
    assert known_true(run_of("true"), stored, HELD) == set()


@pytest.mark.parametrize("rules", [{"join": ANY}, {"map": MapSpec([1])}])
def test_an_early_join_and_a_map_are_left_to_the_transaction(rules: dict[str, Any]) -> None:
    assert known_true(run_of("true", **rules), completion(1), HELD) == set()
