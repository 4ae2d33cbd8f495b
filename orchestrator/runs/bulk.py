"""Pauses, resumes or cancels all runs of a tenant that match a filter, each in a transaction of its own.

The runs are taken in the order of their ids. A run that was changed does not match again, so a call that
stopped at its limit is continued by the same call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.domain.states import OPEN_RUN, RunStatus, sql_in
from pipeweave.orchestrator.runs import pausing, triggering
from pipeweave.orchestrator.state.pause_sql import is_run_paused
from pipeweave.orchestrator.store.database import Database, Transaction

# Runs that one statement reads, and that an answer names.
BATCH = 100
MOST_SHOWN = 20
# Runs that one call changes at most.
MAX_LIMIT = 10_000
# After this time (s) a call leaves the rest to the next one, because its caller waits.
MAX_SECONDS = 20.0


class Action(StrEnum):
    """What is done to each run."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class RunsToChange:
    """Which runs; None for any.

    Args:
        ids: one of these.
        triggered_kind: began by such a thing, one of TRIGGER_KINDS.
        created_after: created at this time or later.
        created_before: created earlier than this time.
    """

    status: str | None = None
    pipeline_id: str | None = None
    triggered_kind: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    ids: tuple[UUID, ...] | None = None


@dataclass(slots=True)
class Changed:
    """What was done.

    Args:
        matched: runs that match and that the action concerns.
        changed: runs that it changed; the others were ended or changed by somebody else meanwhile.
        runs: the first of those that match.
        is_complete: whether all that match were looked at.
    """

    matched: int = 0
    changed: int = 0
    runs: list[UUID] = field(default_factory=list)
    is_complete: bool = True


# The runs that each action would change: SQL of their statuses, and of a further condition.
_CONCERNED: Mapping[Action, tuple[str, str]] = {
    Action.PAUSE: (sql_in({RunStatus.PENDING, RunStatus.RUNNING}), f"NOT {is_run_paused('r.id')}"),
    Action.RESUME: (sql_in({RunStatus.PENDING, RunStatus.PAUSED}), is_run_paused("r.id")),
    Action.CANCEL: (sql_in(OPEN_RUN), "true"),
}
_BEFORE_ALL, _AFTER_ALL = UUID(int=0), UUID(int=(1 << 128) - 1)


def change(
    database: Database,
    tenant: str,
    action: Action,
    chosen: RunsToChange,
    *,
    limit: int,
    reason: str | None = None,
    by: str | None = None,
    is_dry_run: bool = False,
) -> Changed:
    """Do the action to the runs that match, the oldest first, at most `limit` and for MAX_SECONDS.

    Args:
        reason, by: as for `pausing.pause` and `triggering.cancel`.
        is_dry_run: only count them.

    Raises:
        Unavailable: PostgreSQL cannot be reached; some runs may be changed.
    """
    until = time.monotonic() + MAX_SECONDS
    done = Changed()
    verb = _verb(action, tenant, reason, by)
    for run_id in _matching(database, tenant, action, chosen):
        if done.matched >= limit or time.monotonic() >= until:
            done.is_complete = False
            break
        done.matched += 1
        if len(done.runs) < MOST_SHOWN:
            done.runs.append(run_id)
        if not is_dry_run:
            done.changed += _changes(database, verb, run_id)
    return done


def _matching(database: Database, tenant: str, action: Action, chosen: RunsToChange) -> Iterator[UUID]:
    parameters: dict[str, Any] = {
        "tenant": tenant,
        "status": chosen.status,
        "pipeline": chosen.pipeline_id,
        "kind": chosen.triggered_kind,
        "ids": None if chosen.ids is None else list(chosen.ids),
        "oldest": _bound(chosen.created_after, _BEFORE_ALL),
        "newest": _bound(chosen.created_before, _AFTER_ALL),
        "after": _BEFORE_ALL,
        "batch": BATCH,
    }
    while True:
        with database.statements() as tx:
            run_ids = _next_runs(tx, action, parameters)
        yield from run_ids
        if len(run_ids) < BATCH:
            return
        parameters["after"] = run_ids[-1]


def _next_runs(tx: Transaction, action: Action, parameters: dict[str, Any]) -> list[UUID]:
    statuses, where = _CONCERNED[action]
    statement = f"""
SELECT r.id FROM runs AS r
WHERE r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL AND r.status IN {statuses} AND {where}
  AND (CAST(:status AS text) IS NULL OR r.status = CAST(:status AS text))
  AND (CAST(:pipeline AS text) IS NULL OR r.pipeline_id = CAST(:pipeline AS text))
  AND (CAST(:kind AS text) IS NULL OR r.triggered_kind = CAST(:kind AS text))
  AND (CAST(:ids AS uuid[]) IS NULL OR r.id = ANY(CAST(:ids AS uuid[])))
  AND r.id >= CAST(:oldest AS uuid) AND r.id < CAST(:newest AS uuid) AND r.id > CAST(:after AS uuid)
ORDER BY r.id LIMIT :batch
"""
    return list(tx.execute(statement, parameters).scalars())


def _bound(moment: datetime | None, otherwise: UUID) -> UUID:
    return otherwise if moment is None else ids.first_id_at(max(0, int(moment.timestamp() * 1000)))


Verb = Callable[[Transaction, UUID], bool]


def _verb(action: Action, tenant: str, reason: str | None, by: str | None) -> Verb:
    match action:
        case Action.PAUSE:
            return lambda tx, run_id: pausing.pause(tx, tenant, run_id, reason=reason, by=by)
        case Action.RESUME:
            return lambda tx, run_id: pausing.resume(tx, tenant, run_id, by=by)
        case Action.CANCEL:
            return partial(_cancel, tenant=tenant, reason=reason, by=by)


def _cancel(tx: Transaction, run_id: UUID, *, tenant: str, reason: str | None, by: str | None) -> bool:
    triggering.cancel(tx, tenant, run_id, reason=reason, by=by)
    return True


def _changes(database: Database, verb: Verb, run_id: UUID) -> bool:
    try:
        return database.run(lambda tx: verb(tx, run_id))
    except (Conflict, NotFound):
        # It ended meanwhile, or its month was dropped.
        return False
