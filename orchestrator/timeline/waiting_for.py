"""Says what a step waits for, as its pipeline names it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.orchestrator.timeline.spans import PhaseKind
from pipeweave.spec import Body, ChildPipeline, LoopStep, StepSpec, body_of
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

_GROUP = "group:"


def waiting_for(step: StepSpec) -> tuple[PhaseKind | None, str | None]:
    """What a step does while it waits, and for whom or what. Both are None for a step that does not wait.

    Names that an expression makes are not told: only the run knows them.
    """
    match step.decides:
        case Sleep():
            return PhaseKind.ASLEEP, None
        case Approval(assignees=assignees):
            return PhaseKind.APPROVAL, _named([each.removeprefix(_GROUP) for each in assignees], ", ")
        case SignalWait(names=names):
            return PhaseKind.SIGNAL, _named(names, " or ")
        case ChildPipeline() | LoopStep() | Body() as runs:
            body = body_of(runs)
            return PhaseKind.CHILD, body.id if isinstance(body, ChildPipeline) else None
    return None, None


def _named(names: Sequence[str], between: str) -> str | None:
    return None if not names or any("${" in each for each in names) else between.join(names)
