"""Asks in one statement which chores have anything to do: in a healthy deployment, none of them has.

A condition of a chore is cheap and misses nothing; the chore itself looks for what exactly it has to do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pipeweave.orchestrator.recovery.lost_messages import LATE
from pipeweave.orchestrator.runs import deadlines
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import check_database

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look found.

    Args:
        mode: the maintenance mode.
        idle: the names of chores that have nothing to do.
    """

    mode: str
    idle: frozenset[str] = frozenset()


def look(database: Database, conditions: Mapping[str, str], run_limit: timedelta | None) -> Look:
    """Ask which chores have nothing to do. If that fails, each of them has to look for itself.

    Args:
        conditions: SQL by the name of a chore: whether it has anything to do.
        run_limit: the time limit of runs whose pipeline names none; None for no limit.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    try:
        with database.statements() as tx:
            return _look(tx, conditions, run_limit)
    except Exception as error:
        check_database(database, error)
        log.warning("tick.look_failed", exc_info=error)
    with database.statements() as tx:
        return Look(deployment_mode.mode(tx))


def _look(tx: Transaction, conditions: Mapping[str, str], run_limit: timedelta | None) -> Look:
    columns = "".join(f",\n{condition} AS {name}" for name, condition in conditions.items())
    parameters = {"late": tx.now - LATE, **deadlines.parameters(tx.now, run_limit)}
    row: Any = tx.execute(f"SELECT {deployment_mode.MODE} AS mode{columns}", parameters).one()
    return Look(row.mode, frozenset(name for name in conditions if not getattr(row, name)))
