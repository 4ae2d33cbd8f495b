"""Changes many runs that a filter or a list of ids chooses: cancel, pause, resume, rerun, retry what failed.

Called by `api`, and worked off by the tick. Each run is changed by the verb for one run, in a transaction of
its own."""

from pipeweave.orchestrator.bulk.asked import MOST_RUNS, BulkAction, BulkRequest, Selection

__all__ = [
    "MOST_RUNS",
    "BulkAction",
    "BulkRequest",
    "Selection",
]
