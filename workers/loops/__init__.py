"""What a process that lives on does again and again in threads: the tick, and what comes more often, or takes
longer, than a tick may.

`table.py` has all loops; beat and an embedded orchestrator run them (`Loops`). A loop must never be needed
for the next step of a run, nor rely on being the only one: who works takes a lease or locks rows.
"""

from pipeweave.workers.loops.table import Loops

__all__ = ["Loops"]
