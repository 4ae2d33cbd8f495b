"""The tick: finds what was lost, and what is due, and moves it on.

One file for each chore, with a `run_once`; `tick.py` has the table of all chores and runs them one after the
other. Called by beat, `POST /api/tick`, `pipeweave recover` and, for what it stores, by diagnosis. It must
never be needed by a healthy deployment, and the trouble of one run, tenant or chore must never keep another
one waiting.
"""

from pipeweave.orchestrator.recovery import due_attempts, tick, tick_status
from pipeweave.orchestrator.recovery.tick import CHORES, Chore, Rhythm, Ticked, run_once
from pipeweave.orchestrator.recovery.tick_status import ChoreResult, ChoreStatus, LastTick

__all__ = [
    "CHORES",
    "Chore",
    "ChoreResult",
    "ChoreStatus",
    "LastTick",
    "Rhythm",
    "Ticked",
    "due_attempts",
    "run_once",
    "tick",
    "tick_status",
]
