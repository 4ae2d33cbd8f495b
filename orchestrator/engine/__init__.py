"""Decides what a run does next when task runs end: releases, skips and fails steps, and ends the run.

`turn` holds the one sequence in which outcomes are stored; everything else serves it. Called by workers, by
the verbs of runs and dead letters, and by the tick. The engine must never speak to Redis (its messages go
into the outbox of the transaction), never call a task's function, and never commit a transaction that it did
not begin.
"""

from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.conditions import HeldValues
from pipeweave.orchestrator.engine.hand_over import Unstarted
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.engine.turn import Turn

__all__ = [
    "Claimant",
    "Counting",
    "HeldValues",
    "Turn",
    "Unstarted",
]
