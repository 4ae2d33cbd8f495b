"""Rows of runs and task runs, and the only statements that change a status.

Called by the engine and the rooms after it. It must never decide what follows from a change.
"""

from pipeweave.orchestrator.state.attempts import previous_attempts

__all__ = [
    "previous_attempts",
]
