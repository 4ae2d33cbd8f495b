"""Enqueued runs: starts those that callers enqueued in transactions of their own."""

from pipeweave.orchestrator.starts.enqueued import debouncing, starting
from pipeweave.orchestrator.starts.enqueued.starting import (
    IS_DUE,
    IS_LARGE_DUE,
    Due,
    alarm,
    has_due,
    run_large,
    run_once,
)

__all__ = [
    "IS_DUE",
    "IS_LARGE_DUE",
    "Due",
    "alarm",
    "debouncing",
    "has_due",
    "run_large",
    "run_once",
    "starting",
]
