"""Steps that the engine decides, in few words."""

from __future__ import annotations

from typing import Any

from pipeweave.spec import Case, Choice, FailIf, Gather, StepSpec, Transform, engine_task
from pipeweave.spec.joins import SETTLED


def choice(id: str, *cases: Case, needs: tuple[str, ...] = ()) -> StepSpec:
    """A step that takes the branch of the first case that is true."""
    decides = Choice(cases)
    return StepSpec(id, engine_task(decides), needs, decides=decides)


def transform(id: str, output: Any, needs: tuple[str, ...] = (), *fail_if: FailIf, **rules: Any) -> StepSpec:
    """A step that completes with a value."""
    decides = Transform(output, fail_if)
    return StepSpec(id, engine_task(decides), needs, decides=decides, **rules)


def gather(id: str, needs: tuple[str, ...], members: tuple[str, ...] = (), **rules: Any) -> StepSpec:
    """A step that waits for all members of a parallel block; by default they are the steps before it."""
    decides = Gather(members or needs)
    return StepSpec(id, engine_task(decides), needs, decides=decides, join=SETTLED, **rules)
