"""Logs which task runs completed after another attempt of theirs had failed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pipeweave.orchestrator.domain.log_names import names_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.state.rows import of_row
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)


def log_after_commit(tx: Transaction, run: RunHeader, completed: Iterable[Any]) -> None:
    """Log those after the commit.

    Args:
        completed: rows of task runs that complete in this transaction; they start with COLUMNS and have
            `max_attempts`.
    """
    again = [
        {**names_of(run, of_row(row)), "max_attempts": row.max_attempts}
        for row in completed
        if row.attempt > 1
    ]
    if again and log.isEnabledFor(logging.INFO):
        tx.after_commit(lambda: _log(again))


def _log(succeeded: Iterable[dict[str, Any]]) -> None:
    for each in succeeded:
        log.info("task_run.retry_succeeded", extra=each)
