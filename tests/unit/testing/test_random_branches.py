"""Random pipelines with conditions, choices and join rules end in this process as the engine's model says."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.branches import outcome_of, random_branches

from pipeweave import Context, TaskError, TaskResult
from pipeweave.spec.rules import FAIL_FAST, FAILURE_MODES
from pipeweave.testing import run_pipeline


@given(st.integers(0, 1 << 32), st.sampled_from(FAILURE_MODES))
@settings(max_examples=150)
def test_a_random_pipeline_ends_as_the_model_of_the_engine_says(seed: int, mode: str) -> None:
    branches = random_branches(random.Random(seed), "random")
    calls: Counter[str] = Counter()

    def act(ctx: Context) -> Any:
        calls[ctx.step_id] += 1
        key: Any = ctx.step_id if ctx.map_index is None else (ctx.step_id, ctx.map_index)
        if key in branches.fails:
            raise TaskError("it was to fail", code="WISHED", retryable=False)
        chosen = branches.chooses.get(ctx.step_id) if ctx.map_index is None else None
        if chosen is not None:
            after = {each.id for each in branches.spec.steps if ctx.step_id in each.needs}
            chosen = [each for each in chosen if each in after]
        return TaskResult({"of": ctx.step_id}, run_next=chosen)

    expected = outcome_of(branches, mode)
    tasks = {"act": act, "act_limited": act}
    result = run_pipeline(branches.spec, branches.input, tasks=tasks, failure_mode=mode)
    assert result.status == expected.run_status
    if mode != FAIL_FAST or result.status == "completed":
        ends = expected.ends
        assert {id: each.status for id, each in result.steps.items()} == {id: ends[id].status for id in ends}
        assert all(result.steps[id].output == ends[id].output for id in ends if ends[id].output is not None)
        assert +calls == +expected.calls
