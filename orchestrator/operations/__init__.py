"""Operations: one verb on many objects that a filter or a list of ids chooses, worked off at a pace. Bulk
changes of runs (cancel, pause, resume, rerun, retry what failed), and redrives of dead letters.

Called by `api`, and worked off by the tick. This room must never change a run or a dead letter other than by
the verb for one of them, each in a transaction of its own.
"""

from pipeweave.orchestrator.operations.bulk_requests import MOST_RUNS, BulkAction, BulkRequest, Selection
from pipeweave.orchestrator.operations.pace import Pace

__all__ = [
    "MOST_RUNS",
    "BulkAction",
    "BulkRequest",
    "Pace",
    "Selection",
]
