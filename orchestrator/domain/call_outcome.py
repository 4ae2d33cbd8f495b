"""Defines the outcome of a call of a task run's function, as its caller hands it to the engine."""

from __future__ import annotations

from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.task_run import (
    Completion,
    Dispatched,
    KeyWait,
    Postponed,
    Suspended,
    TaskRun,
)

# An attempt that ended badly.
FailedCall = tuple[TaskRun, Failure]

# A result, a failure, no call at all because another task run executes under the same idempotency key, a
# dispatch whose result comes later, one that nobody has room for, or a call whose work goes on elsewhere.
CallOutcome = Completion | KeyWait | Dispatched | Postponed | Suspended | FailedCall


def has_called(outcome: CallOutcome) -> bool:
    """Whether a function was called here, and has ended well or badly."""
    return isinstance(outcome, Completion | Suspended | tuple)


def task_run_of(outcome: CallOutcome) -> TaskRun:
    """The task run that was called."""
    return outcome[0] if isinstance(outcome, tuple) else outcome.task_run
