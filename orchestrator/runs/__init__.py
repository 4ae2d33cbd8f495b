"""The verbs that create and end runs: trigger, enqueue, cancel, time out, admit, register a service.

Called by `api`, workers, the tick, `deadletters` and the command line. This room must never read an HTTP
request or build its answer."""

from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.size_limits import MAX_PRIORITY, MIN_PRIORITY

__all__ = [
    "MAX_PRIORITY",
    "MIN_PRIORITY",
    "CreatedRun",
    "StartRequest",
]
