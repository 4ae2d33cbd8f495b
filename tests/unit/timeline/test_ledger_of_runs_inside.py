"""The ledger of a run tells what its child runs did, in place of the time of the step that waited."""

from __future__ import annotations

from dataclasses import replace

from pipeweave.orchestrator.timeline.critical_path import critical_path
from pipeweave.orchestrator.timeline.ledger import parts, sums
from pipeweave.orchestrator.timeline.spans import PathPart, PhaseKind, RunTimes, TaskRunTimes, TimeSpan
from pipeweave.orchestrator.timeline.words import label


def waiting(ordinal: int, begin: int, end: int) -> TaskRunTimes:
    """A step that runs a pipeline."""
    return TaskRunTimes(
        ordinal=ordinal,
        step_id=f"s{ordinal}",
        task_id="pipeweave:pipeline",
        kind="body",
        status="completed",
        attempt=1,
        is_limited=False,
        created=0,
        queued=begin,
        started=begin,
        finished=end,
        wait=PhaseKind.CHILD,
        waits_for="charge-card",
    )


INNER = replace(waiting(1, 0, 0), task_id="resize", wait=None, waits_for=None)


def told(*inside: PathPart) -> list[tuple[PhaseKind, int, int, str | None]]:
    """What is told of a run of one step that waited from 10 to 100."""
    run = RunTimes(0, 100, False, {1: waiting(1, 10, 100)}, {1: ()}, inside={1: inside})
    run_parts = parts(run, critical_path(run))
    assert sum(each.length for each in run_parts) == 100
    return [
        (each.span.kind, each.span.begin, each.span.end, each.inner and each.inner.task_id)
        for each in run_parts
    ]


def did(kind: PhaseKind, begin: int, end: int) -> PathPart:
    return PathPart(TimeSpan(kind, begin, end), INNER)


def test_a_child_that_nobody_looked_into_is_a_wait_for_it() -> None:
    assert told()[-1] == (PhaseKind.CHILD, 10, 100, None)
    assert label(PhaseKind.CHILD, None, None, "charge-card") == "for a run of charge-card"


def test_what_children_did_is_told_and_what_is_between_them_is_a_wait() -> None:
    inside = did(PhaseKind.WORK, 20, 40), did(PhaseKind.TASK_LIMIT, 40, 50), did(PhaseKind.WORK, 70, 90)
    assert told(*inside)[1:] == [
        (PhaseKind.CHILD, 10, 20, None),
        (PhaseKind.WORK, 20, 40, "resize"),
        (PhaseKind.TASK_LIMIT, 40, 50, "resize"),
        (PhaseKind.CHILD, 50, 70, None),
        (PhaseKind.WORK, 70, 90, "resize"),
        (PhaseKind.CHILD, 90, 100, None),
    ]


def test_of_a_child_only_what_the_step_waited_for_is_told() -> None:
    assert told(did(PhaseKind.WORK, 0, 500))[1:] == [(PhaseKind.WORK, 10, 100, "resize")]


def test_the_sums_name_the_task_of_the_child_and_the_step_that_waited() -> None:
    run = RunTimes(0, 100, False, {1: waiting(1, 0, 100)}, {1: ()})
    run = replace(run, inside={1: [did(PhaseKind.TASK_LIMIT, 0, 60), did(PhaseKind.WORK, 60, 100)]})
    summed = {
        (each.kind, each.task_id): (each.length, each.steps) for each in sums(parts(run, critical_path(run)))
    }
    assert summed == {(PhaseKind.TASK_LIMIT, "resize"): (60, 1), (PhaseKind.WORK, None): (40, 1)}
