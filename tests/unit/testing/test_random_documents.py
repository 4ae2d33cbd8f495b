"""Random pipelines end in this process as the model of a run says."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle

from pipeweave import Context, TaskError, TaskResult
from pipeweave.spec.rules import FAIL_FAST, FAILURE_MODES
from pipeweave.testing import run_pipeline


@given(st.integers(0, 1 << 32), st.sampled_from(FAILURE_MODES))
@settings(max_examples=150)
def test_a_random_pipeline_ends_as_the_model_says(seed: int, mode: str) -> None:
    document, wishes = oracle.random_graph(random.Random(seed), "random")
    calls: Counter[str] = Counter()

    def act(ctx: Context) -> Any:
        calls[ctx.step_id] += 1
        failing = wishes["fail"].get(ctx.step_id)
        if failing is not None and (ctx.map_index is None or ctx.map_index in failing):
            raise TaskError("it was to fail", code="WISHED", retryable=False)
        chosen = wishes["choose"].get(ctx.step_id) if ctx.map_index is None else None
        return TaskResult(ctx.step_id, run_next=chosen)

    expected = oracle.reference(document, wishes, mode)
    tasks = {"act": act, "act_limited": act}
    result = run_pipeline(document, {"lists": wishes["lists"]}, tasks=tasks, failure_mode=mode)
    assert result.status == expected.run_status
    if mode != FAIL_FAST or result.status == "completed":
        assert {step_id: each.status for step_id, each in result.steps.items()} == expected.statuses
        assert +calls == expected.calls
