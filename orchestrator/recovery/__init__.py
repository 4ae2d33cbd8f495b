"""The tick: finds what was lost, and what is due, and moves it on.

One file for each chore, with a `run_once`; `chores.py` has the table of all chores, and `tick.py` runs them.
Called by beat, `POST /api/tick`, `pipeweave recover` and, for what it stores, by diagnosis. It must never be
needed for the next step of a run, and the trouble of one run, tenant or chore must never keep another one
waiting.
"""

from pipeweave.orchestrator.recovery import chores, due_attempts, tick, tick_status
from pipeweave.orchestrator.recovery.chores import CHORES, Chore
from pipeweave.orchestrator.recovery.tick import Ticked, run_once
from pipeweave.orchestrator.recovery.tick_status import ChoreResult, ChoreStatus, LastTick

__all__ = [
    "CHORES",
    "Chore",
    "ChoreResult",
    "ChoreStatus",
    "LastTick",
    "Ticked",
    "chores",
    "due_attempts",
    "run_once",
    "tick",
    "tick_status",
]
