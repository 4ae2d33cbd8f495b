"""The tick: a bounded pass over everything that is due or may have been lost, every POLL_INTERVAL_MS.

It is no part of the engine: the steps of a run follow one another without it. It begins what is due
(schedules, what follows the ends of runs, operations), and finds what was lost. It consists of chores, each
of which does one thing in transactions of its own. A chore that fails is logged, counted and tried again
by the next tick; the other chores go on. A row that another transaction holds is skipped, and found again by
a later tick: the transaction may be that of a host that vanished. One statement takes the lease and finds out
which chores have anything to do (look.py); if none has, it also ends the tick, so that an idle deployment
costs one statement a tick.

Several processes may tick; a lease lets one of them act at a time. It is renewed between chores. A process
that lost it, because it was frozen or a chore took long, leaves the other chores to the new holder and stores
no result. Two chores at once do no harm: each is idempotent, and each of its statements is guarded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from pipeweave.errors import PartlyFailed, PipeWeaveError
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.recovery import late_chores, tick_status
from pipeweave.orchestrator.recovery.chores import CHORES, Chore, run_limit
from pipeweave.orchestrator.recovery.look import Look, Question, begin
from pipeweave.orchestrator.recovery.tick_status import ChoreResult
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import check_database
from pipeweave.orchestrator.store.leases import Lease

log = logging.getLogger(__name__)

# Another process ticks when the one that ticked was not heard of for so long.
LEASE = timedelta(seconds=5)


class Rests(dict[str, float]):
    """Until when (s, monotonic clock) the chores of a database rest, by name."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one tick did; all zero when nothing was lost."""

    # Another process was ticking, so that this one did nothing.
    is_elsewhere: bool = False
    # The chores that failed, wholly or for some of their runs.
    failed_chores: tuple[str, ...] = ()

    republished: int = 0
    joins_checked: int = 0
    followers_brought: int = 0
    limits_filled: int = 0
    held_back: int = 0
    tasks_removed: int = 0
    placed: int = 0
    workers_lost: int = 0
    attempts_ended: int = 0
    retries_released: int = 0
    runs_timed_out: int = 0
    runs_admitted: int = 0
    purged: int = 0
    redriven: int = 0
    bulk_changed: int = 0
    dispatched: int = 0
    schedules_fired: int = 0
    triggers_fired: int = 0
    waits_ended: int = 0
    stored_waits_ended: int = 0
    enqueued_started: int = 0
    enqueued_large_started: int = 0
    hooks_fired: int = 0
    hooks_called: int = 0

    def counts(self) -> dict[str, int]:
        """How much was done, by kind."""
        fields = asdict(self)
        return {name: fields[name] for name in fields if name not in ("is_elsewhere", "failed_chores")}


def run_once(deployment: Deployment, chores: Iterable[Chore] = CHORES, *, is_urgent: bool = False) -> Ticked:
    """Do one tick.

    During maintenance nothing is sent or moved: only lost workers are noted. While maintenance is waited for,
    everything goes on, and the tick enters it when the last run ended unnoticed.

    Args:
        is_urgent: chores that rest run, too: somebody waits for them.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    database, began = deployment.database, time.monotonic()
    rests = database.caches.own(Rests)
    due = tuple([each for each in chores if is_urgent or rests.get(each.name, began) <= began])
    state = begin(database, _question(deployment, due))
    if state.is_over:
        rests.update({each.name: began + each.every.total_seconds() for each in due if each.every})
        return Ticked()
    if state.lease is None:
        return Ticked(is_elsewhere=True)
    try:
        return _tick(deployment, due, state, state.lease)
    except BaseException:
        leases.end(database, state.lease)
        raise


def _question(deployment: Deployment, chores: tuple[Chore, ...]) -> Question:
    database = deployment.database
    look_themselves = [
        each for each in chores if each.is_due is None and not _knows_of_nothing(each, database)
    ]
    names = [each.name for each in chores]
    may_be_over = not look_themselves and not late_chores.are_under_way(database, names)
    return Question(chores, run_limit(deployment), LEASE, may_be_over)


def _knows_of_nothing(chore: Chore, database: Database) -> bool:
    return chore.has_news is not None and not chore.has_news(database)


def _tick(deployment: Deployment, chores: Sequence[Chore], state: Look, lease: Lease) -> Ticked:
    database = deployment.database
    impatient = replace(deployment, database=database.impatient())
    is_quiet = state.mode == deployment_mode.MAINTENANCE
    due = [each for each in chores if each.runs_in_maintenance or not is_quiet]
    results: list[tuple[Chore, ChoreResult]] = []
    beside = replace(deployment, database=database.beside())
    patience_s, rests = late_chores.WAIT_S, database.caches.own(Rests)
    for chore in _while_held(database, lease, due):
        # What an earlier chore did may be work for this one.
        is_idle = chore.name in state.idle and not any(result.done for _, result in results)
        result: ChoreResult | None = ChoreResult.of_nothing(chore.name)
        if chore.may_wait and (not is_idle or late_chores.is_under_way(database, chore.name)):
            began = time.monotonic()
            result = late_chores.run(database, chore.name, partial(_result_of, chore, beside), patience_s)
            patience_s = max(0.0, patience_s - (time.monotonic() - began))
        elif not is_idle:
            result = _result_of(chore, impatient)
        if result is not None and result.is_through:
            rests[chore.name] = time.monotonic() + chore.every.total_seconds()
        results.append((chore, result or ChoreResult.of_nothing(chore.name)))
    with database.statements() as tx:
        if tick_status.record(tx, [result for _, result in results], lease) == deployment_mode.WAITING:
            tx.afterwards(maintenance_mode.enter_if_drained)
    failed = tuple(result.chore for _, result in results if result.error_code is not None)
    done: dict[str, Any] = {
        chore.counts: result.done for chore, result in results if chore.counts is not None
    }
    return Ticked(failed_chores=failed) if is_quiet else Ticked(failed_chores=failed, **done)


def _while_held(database: Database, lease: Lease, chores: Iterable[Chore]) -> Iterator[Chore]:
    """Yield the chores one by one, for as long as the lease is this process's."""
    for chore in chores:
        if not lease.is_fresh and not leases.renew(database, lease):
            log.warning("tick.lease_lost", extra={"before": chore.name})
            return
        yield chore


def _result_of(chore: Chore, deployment: Deployment) -> ChoreResult:
    """Run a chore; an error becomes a part of its result.

    Raises:
        Unavailable: PostgreSQL cannot be reached, so no other chore would succeed.
    """
    began = time.monotonic()
    done = 0
    failure: Exception | None = None
    try:
        done = chore.run_once(deployment)
    except PartlyFailed as error:
        done, failure = error.done, error
    except Exception as error:
        check_database(deployment.database, error)
        failure = error
    result = ChoreResult.of(chore.name, done, timedelta(seconds=time.monotonic() - began), failure)
    if result.error_code is not None:
        reason = failure.detail if isinstance(failure, PipeWeaveError) else None
        extra = {"chore": chore.name, "error_code": result.error_code, "reason": reason}
        log.error("chore.failed", extra=extra, exc_info=failure if reason is None else None)
    return result
