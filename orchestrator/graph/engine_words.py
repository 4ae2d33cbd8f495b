"""Says in a few words what the engine decides at a step: which case takes a link, what a step runs (pure)."""

from __future__ import annotations

from pipeweave.orchestrator.domain.plan import PlannedStep
from pipeweave.spec import Body, ChildPipeline, Choice, LoopStep, body_of

# What the last case of a choice is called, if it has no condition and no name.
OTHERWISE = "else"
# Characters of a condition that stands in place of the name of a case.
_MOST = 16


def case_of(choice: PlannedStep, after: PlannedStep) -> str:
    """The case of a choice that takes the link to a step; empty if the step is not the first of a branch."""
    cases = choice.step.decides.cases if isinstance(choice.step.decides, Choice) else ()
    taking = [each for each in cases if after.id in each.next]
    return " or ".join(each.name or _short(each.condition or OTHERWISE) for each in taking)


def _short(condition: str) -> str:
    text = " ".join(condition.split())
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def inside(step: PlannedStep) -> str:
    """What a step runs as a run of its own: a pipeline, or `steps` of a body; empty if it runs none."""
    match step.step.decides:
        case ChildPipeline() | LoopStep() | Body() as decides:
            body = body_of(decides)
            return body.id if isinstance(body, ChildPipeline) else body.word
    return ""
