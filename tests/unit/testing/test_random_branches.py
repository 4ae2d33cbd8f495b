"""Random pipelines with all kinds of steps and failures end in this process as the model of a run says.

How many of them: RANDOM_RUNS, from the seed RANDOM_FROM. `make test-whole` tries 20,000.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support.branch_model import ended_before, outcome_of, taken_back
from support.branch_values import BOOM, NEVER, WEAK, Branches, End, Outcome
from support.branches import REMEDIES, random_branches

from pipeweave import Context, Suspend, TaskError, TaskResult
from pipeweave.authoring import Task, TaskSpec, classify_error
from pipeweave.spec import parse_spec
from pipeweave.spec.rules import FAIL_FAST, FAILURE_MODES, ITEM_FAILURES
from pipeweave.testing import RunResult, StepResult, run_pipeline

FIRST = int(os.environ.get("RANDOM_FROM", "0"))
RUNS = int(os.environ.get("RANDOM_RUNS", "400"))
# There are no chords here that take many predecessors.
SIZES = (4, 6, 14)
# Of the modules of other tests there may be tasks with these names, and other options.
TASKS = [TaskSpec(id=each, retries=0, code_hash="") for each in ("act", "act_limited")]
PIPELINES = [parse_spec(each) for each in REMEDIES]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Conditions of rules that cannot be evaluated are in the log, thousands of them."""
    caplog.set_level(logging.ERROR, "pipeweave.spec.error_rules")


@pytest.mark.parametrize("part", range(4))
def test_a_random_pipeline_ends_as_the_model_of_the_engine_says(part: int) -> None:
    for seed in range(FIRST + part, FIRST + RUNS, 4):
        try:
            _tell(seed)
        except BaseException:
            print(f"seed {seed}")
            raise


DOES = ("task", "map of task", "choice", "transform", "gather", "signal", "approval")
INSIDE = ("pipeline", "loop", "map of pipeline", "map of steps")


def test_random_pipelines_reach_all_that_the_model_knows() -> None:
    """A generator that no longer makes something, or makes what is refused, proves nothing of it."""
    wanted = {f"{does} {end}" for does in (*DOES, *INSIDE) for end in ("completed", "skipped", "handled")}
    wanted |= {f"{does} failed" for does in (*DOES, *INSIDE) if does != "signal"}
    wanted |= {f"{does} timeout" for does in ("task", "signal", "approval")}
    wanted |= {f"items: {rule} {end}" for rule in ITEM_FAILURES for end in ("completed", "failed")}
    wanted |= {"own rule", "rule of the pipeline", "rule that fails", "taken back", "finally fails"}
    reached = Counter[str]()
    for seed in range(1_000):
        branches = random_branches(random.Random(seed), "random")
        reached.update(_reached(branches, outcome_of(branches, _mode(seed))))
    assert wanted - reached.keys() == set()


def _reached(branches: Branches, outcome: Outcome) -> Iterator[str]:
    for step in branches.spec.steps:
        end = outcome.ends[step.id]
        does = "map of " * step.has_items + ("task" if step.decides is None else step.decides.word)
        yield f"{does} {end.status}"
        if end.code == "MAP_ITEMS_FAILED" or (step.has_items and None in (end.output or ())):
            yield f"items: {step.item_failure} {end.status}"
        if end.is_handled:
            yield "rule of the pipeline" if step.on_error is None else "own rule"
            yield f"{does} handled" if end.status == "completed" else "rule that fails"
    if outcome.taken_back:
        yield "taken back"
    if outcome.decided != outcome.run_status:
        yield "finally fails"


def _mode(seed: int) -> str:
    return FAILURE_MODES[seed // 4 % len(FAILURE_MODES)]


def _tell(seed: int) -> None:
    mode, branches = _mode(seed), random_branches(random.Random(seed), "random", SIZES)
    expected, calls = outcome_of(branches, mode), Counter[str]()
    result = _run(branches, mode, calls)
    assert (result.status, result.output) == (expected.run_status, expected.output)
    is_cut = mode == FAIL_FAST and bool(expected.failures)
    if is_cut:
        assert calls <= expected.calls
    else:
        ends = {
            id: (each.status, each.code, each.output, each.is_handled) for id, each in expected.ends.items()
        }
        assert {id: _end(each) for id, each in result.steps.items()} == ends
        assert calls == +expected.calls
        assert result.status == "partial" or (result.error is None) == (result.status == "completed")
    _compare_ending(branches, result, expected, is_cut=is_cut)


def _run(branches: Branches, mode: str, calls: Counter[str]) -> RunResult:
    def act(ctx: Context) -> Any:
        calls[ctx.step_id] += 1
        key: Any = ctx.step_id if ctx.map_index is None else (ctx.step_id, ctx.map_index)
        if key in branches.fails:
            raise TaskError("it was to fail", code=BOOM, retryable=False)
        if ctx.attempt <= branches.tries.get(ctx.step_id, 0):
            raise TaskError("it was to fail for now", code=WEAK)
        if ctx.step_id in branches.reports:
            return Suspend.callback()
        chosen = branches.chooses.get(ctx.step_id) if ctx.map_index is None else None
        return TaskResult({"of": ctx.step_id}, run_next=chosen)

    return run_pipeline(
        branches.spec,
        branches.input,
        tasks={each.id: Task(act, each) for each in TASKS},
        pipelines=PIPELINES,
        failure_mode=mode,
        signals=branches.signals,
        approvals={id: each for id, each in branches.decisions.items() if each is not NEVER},
        callbacks={id: each for id, each in branches.reports.items() if each is not NEVER},
    )


def _end(result: StepResult) -> tuple[Any, ...]:
    """What is compared of the end of a step."""
    error = result.handled_error or result.error
    code = None if error is None else classify_error(error)[0]
    return result.status, code, result.output, result.handler is not None


def _compare_ending(branches: Branches, result: RunResult, expected: Outcome, *, is_cut: bool) -> None:
    """What follows the last step.

    Args:
        is_cut: the run has ended with its first failure, before steps that the model goes on with.
    """
    ends = {id: End(each.status, is_handled=each.handler is not None) for id, each in result.steps.items()}
    wanted = taken_back(branches.spec, ends) if is_cut else expected.taken_back
    back = [each.removeprefix("compensate:") for each in result.ending if each != "finally"]
    assert sorted(back) == sorted(wanted)
    # What ended last is taken back first, and what follows in any case comes last.
    before = ended_before(branches.spec)
    assert not any(before[early] & set(back[:at]) for at, early in enumerate(back))
    assert [*result.ending][len(back) :] == ["finally"] * (branches.spec.finally_call is not None)
    if "finally" in result.ending:
        assert result.ending["finally"].output == expected.finally_output
