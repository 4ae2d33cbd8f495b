"""Limits how many task runs of all tenants are at work: queued for a worker, or running.

While there is a limit, each new task run is held as if its task had a limit of its own, and limits.py lets it
start. So what is at work is counted from rows, as there, and a limit costs those nothing who have none. Task
runs of runs that were written before the limit was set go on without it; they are counted. What waits in a
parking queue for a worker, or for something outside, is not at work.

Who lets task runs start holds the lock on the row of the deployment, before the rows of tasks.
"""

from __future__ import annotations

import logging
from typing import Any

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.domain import kind_sql, queue_names
from pipeweave.orchestrator.store.database import Transaction

log = logging.getLogger(__name__)
MAX_LIMIT = 1_000_000

# SQL: whether there is a limit.
IS_SET = "EXISTS (SELECT 1 FROM orchestrator_state AS d WHERE d.max_running_task_runs IS NOT NULL)"
# Locks nothing where there is none.
LOCK = "SELECT 1 FROM orchestrator_state AS d WHERE d.max_running_task_runs IS NOT NULL FOR NO KEY UPDATE"


# SQL: the task runs that are at work, of either status by its own index.
_AT_WORK = [
    f"""FROM task_runs AS t WHERE t.status = '{status}'
        AND {kind_sql.IS_CALLED} AND NOT {queue_names.is_parking_sql("t.queue")}"""
    for status in ("queued", "running")
]
# SQL: how many are at work of each tenant.
BY_TENANT = f"""SELECT o.tenant_id, count(*) AS number FROM (
    {" UNION ALL ".join(f"SELECT t.tenant_id {each}" for each in _AT_WORK)}) AS o GROUP BY o.tenant_id"""


def _at_work(most: str) -> str:
    """SQL: how many task runs are at work; counting ends at `most` for either status."""
    return " + ".join(f"(SELECT count(*) FROM (SELECT 1 {each} LIMIT {most}) AS o)" for each in _AT_WORK)


# SQL: how many more task runs may start; NULL without a limit.
ROOM = f"""(SELECT greatest(0, d.max_running_task_runs - ({_at_work("d.max_running_task_runs")}))
    FROM orchestrator_state AS d WHERE d.max_running_task_runs IS NOT NULL)"""

_STATE = f"""
SELECT d.max_running_task_runs AS most, {_at_work(str(MAX_LIMIT))} AS at_work FROM orchestrator_state AS d
"""
_SET = "UPDATE orchestrator_state SET max_running_task_runs = :most"


def read(tx: Transaction) -> Any:
    """The limit, `most`, None for none; and how many task runs are `at_work`."""
    return tx.execute(_STATE).one()


def set_limit(tx: Transaction, most: int | None) -> None:
    """Set how many task runs may be at work at a time; None for any number. What is at work goes on, and the
    next tick starts what a higher limit lets start.

    Raises:
        InvalidInput: `most` is not from 1 to MAX_LIMIT.
    """
    if most is not None and not 1 <= most <= MAX_LIMIT:
        expected = f"1 to {MAX_LIMIT:,}, or null for no limit"
        raise InvalidInput(
            f"maxRunningTaskRuns {most} is out of range",
            errors=[FieldError("maxRunningTaskRuns", "is out of range", "out_of_range", expected)],
        )
    tx.execute(_SET, {"most": most})
    log.info("deployment.limited", extra={"max_running_task_runs": most})
