"""How the call of a task run's function ended, as whoever called it hands it to the engine."""

from __future__ import annotations

from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.task_run import Awaits, Completion, TaskRun

# An attempt that ended badly.
FailedCall = tuple[TaskRun, Failure]

# A result, a failure, or no call at all because another task run executes under the same idempotency key.
CallOutcome = Completion | Awaits | FailedCall


def task_run_of(outcome: CallOutcome) -> TaskRun:
    """The task run that was called."""
    return outcome[0] if isinstance(outcome, tuple) else outcome.task_run
