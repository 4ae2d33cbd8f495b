"""What goes back to the beginning when a dead letter is retried (pure)."""

from __future__ import annotations

from pipeweave.orchestrator.deadletters.reopening import StepToReopen, StoppedSteps, find_stopped
from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.domain.states import TaskStatus as T
from pipeweave.spec.document import parse_spec

DONE, FAILED, UNCHOSEN = StepToReopen(T.COMPLETED), StepToReopen(T.FAILED, "BOOM"), StepToReopen(T.SKIPPED)
STOPPED, FOLLOWED = StepToReopen(T.CANCELLED, "RUN_FAILED"), StepToReopen(T.SKIPPED, "PREDECESSOR_FAILED")


def plan(**needs: list[str]) -> Plan:
    steps = [{"id": each, "task": "t", "needs": before} for each, before in needs.items()]
    return compile_plan(parse_spec({"id": "p", "steps": steps}))


CHAIN = plan(a=[], b=["a"], c=["b"], d=["c"])


def test_steps_skipped_after_the_failure_are_reopened_up_to_other_decisions() -> None:
    assert find_stopped(CHAIN, {1: FAILED, 2: FOLLOWED, 3: FOLLOWED, 4: FOLLOWED}, [1]) == StoppedSteps(
        (2, 3, 4), ()
    )
    assert find_stopped(CHAIN, {1: FAILED, 2: FOLLOWED, 3: DONE, 4: FOLLOWED}, [1]) == StoppedSteps((2,), ())
    assert find_stopped(CHAIN, {1: FAILED, 2: UNCHOSEN, 3: UNCHOSEN, 4: UNCHOSEN}, [1]) == StoppedSteps(
        (), ()
    )


def test_steps_skipped_after_another_failure_stay_skipped() -> None:
    two = plan(a=[], b=[], c=["a"], d=["b"], e=["c", "d"])
    steps = {1: FAILED, 2: FAILED, 3: FOLLOWED, 4: FOLLOWED, 5: FOLLOWED}
    assert find_stopped(two, steps, [1]) == StoppedSteps((3, 5), ())
    assert find_stopped(two, steps, [1, 2]) == StoppedSteps((3, 4, 5), ())


def test_steps_cancelled_by_the_end_of_the_run_are_reopened() -> None:
    apart = plan(a=[], b=[], c=["b"])
    for code in ("RUN_FAILED", "RUN_TIMEOUT", "RUN_IDLE_TIMEOUT"):
        steps = {1: FAILED, 2: StepToReopen(T.CANCELLED, code), 3: StepToReopen(T.CANCELLED, code)}
        assert find_stopped(apart, steps, [1]) == StoppedSteps((2, 3), ())
    for code in ("CANCELLED", "TASK_REMOVED"):
        steps = {1: FAILED, 2: StepToReopen(T.CANCELLED, code), 3: FOLLOWED}
        assert find_stopped(apart, steps, [1]) == StoppedSteps((), ()), "someone meant it"


def test_a_map_that_has_items_waits_for_them_again() -> None:
    for its in (
        StepToReopen(T.FAILED, "MAP_ITEMS_FAILED", True),
        StepToReopen(T.CANCELLED, "RUN_FAILED", True),
        StepToReopen(T.COMPLETED, None, True),
    ):
        assert find_stopped(CHAIN, {1: its, 2: FOLLOWED, 3: STOPPED, 4: STOPPED}, [1]) == StoppedSteps(
            (2, 3, 4), (1,)
        )
    assert find_stopped(CHAIN, {1: StepToReopen(T.WAITING, None, True)}, [1]) == StoppedSteps((), ()), (
        "it waits still"
    )
    beside = {1: FAILED, 2: StepToReopen(T.CANCELLED, "RUN_FAILED", True), 3: STOPPED, 4: STOPPED}
    assert find_stopped(plan(a=[], b=[], c=[], d=[]), beside, [1]) == StoppedSteps((3, 4), (2,))


def test_open_steps_stay_as_they_are() -> None:
    assert find_stopped(CHAIN, {1: FAILED, 4: StepToReopen(T.PENDING)}, [1]) == StoppedSteps((), ())
