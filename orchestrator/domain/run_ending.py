"""Defines what a run still does when all its steps have ended: its ending, and how the run ends by it (pure).

With which status the run ends is decided before the ending begins. Its parts run one after the other, each a
run of its own: what takes completed steps back, the one that ended last first, and then what runs in any
case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.spec import ChildCall

FINALLY: Final = "finally"
FINALLY_FAILED: Final = "FINALLY_FAILED"
_COMPENSATES: Final = "compensate:"
# Steps are taken back if the run ended so.
_ENDED_BADLY = frozenset({RunStatus.FAILED, RunStatus.CANCELLED})


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The ending of a run.

    Args:
        status: with which the run ends, unless what runs in any case fails.
        error: of the run; None where it ends well.
        parts: their names, in their order.
    """

    status: RunStatus
    error: Mapping[str, Any] | None
    parts: tuple[str, ...]

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> RunEnding:
        return cls(RunStatus(stored["status"]), stored["error"], tuple(stored["parts"]))

    def to_json(self) -> dict[str, Any]:
        error = None if self.error is None else dict(self.error)
        return {"status": self.status.value, "error": error, "parts": list(self.parts)}


def parts_of(plan: Plan, status: RunStatus, completed: Sequence[str]) -> tuple[str, ...]:
    """The parts of the ending of a run; none if nothing follows its last step.

    Args:
        status: with which the run ends.
        completed: the ids of the steps that are to be taken back if it ends badly, in their order.
    """
    back = [f"{_COMPENSATES}{each}" for each in completed] if status in _ENDED_BADLY else []
    return (*back, *([FINALLY] if plan.finally_call is not None else []))


def call_of(plan: Plan, part: str) -> ChildCall:
    """What a part runs."""
    step = step_of(part)
    call = plan.finally_call if step is None else plan[plan.ordinals[step]].step.compensate
    assert call is not None
    return call


def place_of(part: str) -> str:
    """Where the body of a part is in its version."""
    step = step_of(part)
    return part if step is None else f"{step}.compensate"


def step_of(part: str) -> str | None:
    """The step that a part takes back; None of `finally`."""
    return None if part == FINALLY else part.removeprefix(_COMPENSATES)


def result_of(
    ending: RunEnding, errors: Mapping[str, Mapping[str, Any]]
) -> tuple[RunStatus, dict[str, Any] | None]:
    """How a run ends when its ending is over: its status and its error.

    Args:
        errors: why parts failed, by their names: {code, message, runId}.
    """
    further: dict[str, Any] = {}
    if back := [_of_step(part, each) for part, each in errors.items() if part != FINALLY]:
        further["compensationErrors"] = back
    if FINALLY in errors:
        further["finallyError"] = dict(errors[FINALLY])
    if ending.error is not None:
        return ending.status, {**ending.error, **further}
    if FINALLY not in errors:
        return ending.status, None
    message = f"what runs at the end of the run did not succeed: {errors[FINALLY]['message']}"
    return RunStatus.FAILED, {"code": FINALLY_FAILED, "message": message, **further}


def _of_step(part: str, error: Mapping[str, Any]) -> dict[str, Any]:
    return {"step": step_of(part), **error}
