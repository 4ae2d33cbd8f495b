"""Asks for stuck joins: all that they wait for is final, and their chord never fired.

A message asks a worker to check the join; the worker then decides as it does when a chord fires. A pass goes
over all open runs, many at a time, so that the last of thousands is seen as soon as the first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.plan import Plan, standalone_plan
from pipeweave.orchestrator.domain.states import ADVANCING_RUN, sql_in
from pipeweave.orchestrator.messaging.publisher import CHECK_LEVEL
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.recovery.lost_messages import LATE, LEEWAY
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Isolation, Unfinished

# Runs that one statement reads, and how many steps they may have together: a run may have thousands.
RUNS_AT_ONCE = 500
STEPS_AT_ONCE = 20_000
# After this long (s) the rest of a pass is left to the next tick, because a tick has other chores.
MAX_SECONDS_PER_TICK = 0.5

# Each step of a quiet run waits, or comes after one that does: no join of it is closed. A run in its ending
# has decided all of them.
_LIVELY = "r.finished_at IS NULL AND r.quiet_since IS NULL AND r.ending IS NULL"

_OPEN_RUNS = f"""
SELECT r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.body FROM runs AS r
WHERE r.status IN {sql_in(ADVANCING_RUN)} AND {_LIVELY} AND r.created_at < :late AND r.id > :after
ORDER BY r.id LIMIT :batch
"""

# SQL: whether there is anything for this chore to look at.
IS_DUE = f"""EXISTS (SELECT 1 FROM runs AS r
    WHERE r.status IN {sql_in(ADVANCING_RUN)} AND {_LIVELY} AND r.created_at < :late)"""

_ALONE = standalone_plan("task")
_BEFORE_ALL = UUID(int=0)

Plans = Mapping[UUID, Plan]


@dataclass(slots=True)
class _JoinPass:
    """The pass of this process over a database.

    Args:
        after: the last run that it looked at.
        asked: when it asked for a join (s since the epoch, by PostgreSQL's clock).
        asked_before: the same of the pass before.
    """

    after: UUID = _BEFORE_ALL
    asked: dict[JoinCheck, float] = field(default_factory=dict)
    asked_before: dict[JoinCheck, float] = field(default_factory=dict)


def run_once(deployment: Deployment) -> int:
    """Ask for the stuck joins of all lively runs, or of as many as MAX_SECONDS_PER_TICK allow; the next call
    goes on from there. Returns the number of joins.

    Raises:
        PartlyFailed: some runs could not be looked at.
        Unavailable: PostgreSQL cannot be reached.
    """
    until = time.monotonic() + MAX_SECONDS_PER_TICK
    isolation, under_way = Isolation(deployment.database), deployment.database.caches.own(_JoinPass)
    asked = 0
    while True:
        rows = _next_runs(deployment.database)
        asked += _ask_for(deployment, _plans(deployment.database, rows, isolation), isolation)
        is_over = len(rows) < RUNS_AT_ONCE
        under_way.after = _BEFORE_ALL if is_over else rows[-1].id
        if is_over:
            under_way.asked, under_way.asked_before = {}, under_way.asked
        if is_over or time.monotonic() >= until:
            break
    done = isolation.finish(asked)
    return done if is_over else Unfinished(done)


def _next_runs(database: Database) -> list[Any]:
    with database.statements() as tx:
        parameters = {
            "late": tx.now - LATE,
            "after": database.caches.own(_JoinPass).after,
            "batch": RUNS_AT_ONCE,
        }
        return list(tx.execute(_OPEN_RUNS, parameters))


def _plans(database: Database, rows: Sequence[Any], isolation: Isolation) -> Plans:
    """The plans of runs; those are left out whose version cannot be read."""
    versions = {row[1:]: row for row in rows}
    plans: dict[Any, Plan] = {}

    def load(version: Any, row: Any) -> int:
        with database.statements() as tx:
            plans[version] = _ALONE if row.pipeline_id is None else pipelines.of_run(tx, row).plan
        return 0

    for version, row in versions.items():
        isolation.run(lambda version=version, row=row: load(version, row), run_id=row.id)  # type: ignore[misc]
    return {row.id: plans[row[1:]] for row in rows if row[1:] in plans}


def _ask_for(deployment: Deployment, plans: Plans, isolation: Isolation) -> int:
    def ask(runs: Sequence[UUID]) -> int:
        return _ask(deployment, {run_id: plans[run_id] for run_id in runs})

    return sum(isolation.run_together(some, ask, "run_id") for some in _together(plans))


def _together(plans: Plans) -> Iterator[list[UUID]]:
    """Split runs, so that those of one statement have STEPS_AT_ONCE steps at most, or are one."""
    some: list[UUID] = []
    steps = 0
    for run_id, plan in plans.items():
        if some and steps + len(plan.steps) > STEPS_AT_ONCE:
            yield some
            some, steps = [], 0
        some.append(run_id)
        steps += len(plan.steps)
    if some:
        yield some


def _ask(deployment: Deployment, plans: Plans) -> int:
    with deployment.database.statements() as tx:
        checks = closed_joins(tx, plans)
        waiting = _waiting(deployment, checks)
        due = [each for each in checks if each not in waiting]
        tx.send(*due)
    deployment.database.caches.own(_JoinPass).asked |= waiting | dict.fromkeys(due, tx.now.timestamp())
    return len(due)


def _waiting(deployment: Deployment, checks: Sequence[JoinCheck]) -> dict[JoinCheck, float]:
    """The checks that were sent before and may still be in their queue, with the time at which they were.

    They are not sent again: each pass would make the queue longer.
    """
    under_way = deployment.database.caches.own(_JoinPass)
    sent = under_way.asked_before | under_way.asked
    again = {check: sent[check] for check in checks if check in sent}
    queues = {each.queue for each in again}
    try:
        oldest = {queue: deployment.publisher.oldest(queue)[CHECK_LEVEL] for queue in queues}
    except Unavailable:
        return again
    return {
        check: at
        for check, at in again.items()
        if (first := oldest[check.queue]) is not None and first <= at + LEEWAY.total_seconds()
    }
