"""Enqueued runs: starts those that callers enqueued in transactions of their own.

Called by the tick and by a thread of beat. This room must never write what a caller enqueued, and never read
an HTTP request.
"""

from pipeweave.orchestrator.enqueued import starting
from pipeweave.orchestrator.enqueued.starting import IS_DUE, IS_LARGE_DUE, Due, has_due, run_large, run_once

__all__ = [
    "IS_DUE",
    "IS_LARGE_DUE",
    "Due",
    "has_due",
    "run_large",
    "run_once",
    "starting",
]
