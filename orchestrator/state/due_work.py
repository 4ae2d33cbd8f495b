"""Finds what is due for chores that start runs: nothing starts in maintenance, and tenants take turns."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Database

# The rows among which tenants take turns: so many times a batch.
WINDOW = 10


def is_accepting(database: Database) -> bool:
    """Whether the deployment accepts new work.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        return deployment_mode.mode(tx) == deployment_mode.RUNNING


def in_turns(due: str, at: str) -> str:
    """SQL: the first `:batch` rows that are due, one of each tenant, then the next one of each, and so on.

    So thousands of rows of one tenant do not keep another tenant's waiting.

    Args:
        due: SQL without ORDER BY that selects `tenant_id`, `id` and the time of what is due at `:now`.
        at: the column of the time.
    """
    return f"""
SELECT w.* FROM (
    SELECT o.*, row_number() OVER (PARTITION BY o.tenant_id ORDER BY o.{at}, o.id) AS turn
    FROM ({due} ORDER BY {at} LIMIT :window) AS o) AS w
ORDER BY w.turn, w.{at}, w.id LIMIT :batch
"""


def first(batch: int, now: datetime) -> dict[str, Any]:
    """The parameters of SQL of `in_turns`: the first so many rows that are due now."""
    return {"now": now, "window": WINDOW * batch, "batch": batch}
