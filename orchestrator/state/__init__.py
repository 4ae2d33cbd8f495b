"""Rows of runs and task runs, and the only statements that change a status.

Called by the engine and the rooms after it. It must never decide what follows from a change.
"""

from pipeweave.orchestrator.state.attempts import previous_attempts
from pipeweave.orchestrator.state.outputs import Places, StepOutcome

__all__ = [
    "Places",
    "StepOutcome",
    "previous_attempts",
]
