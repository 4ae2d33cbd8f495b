"""The end of a run is a decision, made before anything of it is written."""

from __future__ import annotations

from uuid import UUID

import pytest

from pipeweave import ids
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.plan import END, compile_plan
from pipeweave.orchestrator.domain.states import FINAL_TASK, TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.decide import End, end_by_decisions, end_by_failure
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.spec.rules import CONTINUE, FAIL_FAST, FAILED, PARTIAL_MERGE, Decision

PLAN = compile_plan(PipelineSpec("p", (StepSpec("s1", "t"), StepSpec("s2", "t"))))
RUN = UUID("0190f5a0-0000-7000-8000-000000000000")


def ended(ordinal: int, status: TaskStatus) -> TaskRun:
    return TaskRun(
        id=ids.task_run_id(RUN, ordinal),
        run_id=RUN,
        step_id=f"s{ordinal}",
        task_id="t",
        kind="task",
        status=status,
        attempt=1,
        map_index=None,
        map_parent=None,
        item=None,
        priority=50,
        queue="q",
        is_limited=False,
        code_version=1,
        code_hash="h",
    )


@pytest.mark.parametrize("status", sorted(FINAL_TASK))
def test_under_fail_fast_a_failure_ends_the_run_and_no_other_end_of_a_task_run_does(
    status: TaskStatus,
) -> None:
    finished = [ended(1, TaskStatus.COMPLETED), ended(2, status)]
    assert end_by_failure(FAIL_FAST, PLAN, finished, {}) == (End(finished[1]) if status in FAILED else None)


def test_the_first_of_several_failures_ends_the_run_and_says_why() -> None:
    first, second = ended(1, TaskStatus.FAILED), ended(2, TaskStatus.TIMEOUT)
    cause, other = Failure("BROKEN", "it broke", "Broken"), Failure("LATE", "it was late", "Late")
    assert end_by_failure(FAIL_FAST, PLAN, [first, second], {first.id: cause, second.id: other}) == End(
        first, cause
    )


@pytest.mark.parametrize("mode", [CONTINUE, PARTIAL_MERGE])
def test_in_the_other_failure_modes_a_failure_ends_no_run(mode: str) -> None:
    assert end_by_failure(mode, PLAN, [ended(1, TaskStatus.FAILED)], {}) is None


@pytest.mark.parametrize(
    ("decisions", "end"),
    [
        ({END: Decision.RUN}, End()),
        ({3: Decision.SKIP, END: Decision.RUN}, End()),
        ({END: Decision.WAIT}, None),
        ({3: Decision.RUN}, None),
        ({}, None),
    ],
)
def test_a_run_is_over_when_all_is_final_that_its_end_waits_for(
    decisions: dict[int, Decision], end: End | None
) -> None:
    assert end_by_decisions(decisions) == end
