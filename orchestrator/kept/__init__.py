"""What runs have kept: outputs, stored values, logs, hashes of inputs, and the filter that chooses runs.

Called by `operations` and later rooms, and by `api`. This room must never write to PostgreSQL, or shape an
answer of the API.
"""

from pipeweave.orchestrator.kept.log_endings import LogEndings
from pipeweave.orchestrator.kept.run_filter import RunFilter
from pipeweave.orchestrator.kept.stored_logs import log_place, read_log
from pipeweave.orchestrator.kept.stored_values import load_values

__all__ = [
    "LogEndings",
    "RunFilter",
    "load_values",
    "log_place",
    "read_log",
]
