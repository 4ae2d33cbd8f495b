"""The tick: a bounded pass over everything that is due or may have been lost, every POLL_INTERVAL_MS.

It is no part of the engine: the steps of a run follow one another without it. It begins what is due
(schedules, what follows the ends of runs, operations), and finds what was lost. It consists of chores, each
of which does one thing in transactions of its own. A chore that fails is logged, counted and tried again
by the next tick; the other chores go on. A row that another transaction holds is skipped, and found again by
a later tick: the transaction may be that of a host that vanished. One statement finds out which chores have
anything to do (look.py), so that an idle deployment costs three statements a tick.

Several processes may tick; a lease lets one of them act at a time. It is renewed between chores. A process
that lost it, because it was frozen or a chore took long, leaves the other chores to the new holder and stores
no result. Two chores at once do no harm: each is idempotent, and each of its statements is guarded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from pipeweave.errors import PartlyFailed, PipeWeaveError
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.dispatch import probes, serverless
from pipeweave.orchestrator.objects import passes, uploads
from pipeweave.orchestrator.operations import bulk_changes, redrives, run_changes
from pipeweave.orchestrator.queueing import limits, maintenance_mode, paused_runs, pauses, placement
from pipeweave.orchestrator.recovery import (
    due_attempts,
    late_chores,
    lost_attempts,
    lost_messages,
    old_queues,
    promotions,
    stuck_joins,
    task_moves,
    task_removals,
    tick_status,
)
from pipeweave.orchestrator.recovery.look import look
from pipeweave.orchestrator.recovery.tick_status import ChoreResult
from pipeweave.orchestrator.registry import instances, worker_processes
from pipeweave.orchestrator.retention import expiry, partitions
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import admission, deadlines
from pipeweave.orchestrator.starts import enqueued, event_consumer
from pipeweave.orchestrator.starts.hooks import run_starts, url_calls
from pipeweave.orchestrator.starts.schedules import firing
from pipeweave.orchestrator.starts.triggers import event_starts
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import check_database
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.orchestrator.telemetry.statistics import fold

log = logging.getLogger(__name__)

# Another process ticks when the one that ticked was not heard of for so long.
LEASE = timedelta(seconds=5)


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
    enqueued_started: int = 0
    enqueued_large_started: int = 0
    hooks_fired: int = 0
    hooks_called: int = 0

    def counts(self) -> dict[str, int]:
        """How much was done, by kind."""
        found = asdict(self)
        return {name: found[name] for name in found if name not in ("is_elsewhere", "failed_chores")}


@dataclass(frozen=True, slots=True)
class Chore:
    """A part of the tick.

    Args:
        name: in the log, in `tick_chores` and in `/health`.
        run_once: does what is due now and returns how much that was. It bounds its work, and the trouble of
            one run or tenant does not stop it for the others.
        counts: the field of `Ticked` that takes its count; None for work that nobody waits for.
        runs_in_maintenance: it sends nothing and moves no run.
        is_due: SQL: whether it has anything to do; None where only the chore itself knows.
        every: a process that ticks on and on runs it so often (see `Rhythm`).
        is_under_way: whether it left something undone, and goes on before its time.
        may_wait: it may wait for a store or a service, and runs beside the tick (late_chores.py).
    """

    name: str
    run_once: Callable[[Deployment], int]
    counts: str | None
    runs_in_maintenance: bool = False
    is_due: str | None = None
    every: timedelta = timedelta()
    is_under_way: Callable[[Database], bool] = field(default=lambda _: False)
    may_wait: bool = False


def _lost_workers(deployment: Deployment) -> int:
    with deployment.database.transaction() as tx:
        return len(worker_processes.mark_lost(tx))


def _pauses(deployment: Deployment) -> int:
    of_tasks = deployment.database.run(pauses.take_back)
    return of_tasks + paused_runs.take_back_waiting(deployment.database)


def _deadlines(deployment: Deployment) -> int:
    return deadlines.enforce(deployment.database, _run_limit(deployment))


def _run_limit(deployment: Deployment) -> timedelta | None:
    limit = deployment.settings.max_execution_timeout
    return timedelta(milliseconds=limit) if limit else None


def _storage(deployment: Deployment) -> int:
    settings = deployment.settings
    return passes.run_once(
        deployment.database,
        deployment.values.backends,
        settings.storage_grace_hours,
        is_own_folder=not settings.storage_backends,
    )


# In this order: an attempt that is lost ends before the runs and limits that wait for it are looked at.
CHORES = (
    Chore("partitions", lambda each: partitions.ensure_hourly(each.database), None),
    Chore("promotions", lambda each: promotions.run_once(each.database), None),
    Chore(
        "lost_workers",
        _lost_workers,
        "workers_lost",
        runs_in_maintenance=True,
        is_due=worker_processes.IS_SILENT,
    ),
    Chore("lost_attempts", lost_attempts.run_once, "attempts_ended", is_due=lost_attempts.IS_DUE),
    Chore("pauses", _pauses, "held_back", is_due=f"({pauses.IS_DUE} OR {paused_runs.IS_DUE})"),
    Chore("due_attempts", due_attempts.run_once, "retries_released", is_due=due_attempts.IS_DUE),
    Chore("deadlines", _deadlines, "runs_timed_out", is_due=deadlines.IS_DUE),
    Chore(
        "admission",
        lambda each: admission.admit_waiting(each.database),
        "runs_admitted",
        is_due=admission.IS_DUE,
    ),
    Chore(
        "schedules",
        lambda each: firing.run_once(each.database, each.values),
        "schedules_fired",
        is_due=firing.IS_DUE,
        may_wait=True,
    ),
    Chore(
        "events",
        lambda each: event_consumer.run_once(each.database),
        None,
        is_due=event_consumer.IS_DUE,
    ),
    Chore(
        "triggers",
        lambda each: event_starts.run_once(each.database, each.values),
        "triggers_fired",
        is_due=event_starts.IS_DUE,
        may_wait=True,
    ),
    Chore(
        "enqueued",
        lambda each: enqueued.run_once(each.database, each.values),
        "enqueued_started",
        is_due=enqueued.IS_DUE,
    ),
    Chore(
        "enqueued_large",
        lambda each: enqueued.run_large(each.database, each.values),
        "enqueued_large_started",
        is_due=enqueued.IS_LARGE_DUE,
        may_wait=True,
    ),
    Chore(
        "hooks",
        lambda each: run_starts.run_once(each.database, each.values),
        "hooks_fired",
        is_due=run_starts.IS_DUE,
        may_wait=True,
    ),
    Chore(
        "hook_calls",
        lambda each: url_calls.run_once(each.database, each.settings),
        "hooks_called",
        is_due=url_calls.IS_DUE,
    ),
    Chore("task_moves", task_moves.run_once, "followers_brought", is_due=task_moves.IS_DUE),
    Chore("task_removals", task_removals.run_once, "tasks_removed"),
    Chore("placement", lambda each: placement.place_again(each.database), "placed", is_due=placement.IS_DUE),
    Chore(
        "instances",
        lambda each: probes.run_once(each.database, each.settings.dispatch_networks),
        None,
        is_due=instances.IS_PROBE_DUE,
    ),
    Chore("limits", lambda each: limits.fill_waiting(each.database), "limits_filled", is_due=limits.IS_DUE),
    Chore(
        "redrives",
        lambda each: redrives.run_once(each.database, each.values),
        "redriven",
        is_due=redrives.TABLE.is_due,
        may_wait=True,
    ),
    Chore(
        "bulk_changes",
        lambda each: run_changes.run_once(each.database, each.values),
        "bulk_changed",
        is_due=bulk_changes.TABLE.is_due,
        may_wait=True,
    ),
    Chore("expiry", lambda each: expiry.run_hourly(each.database, Policy.of(each.settings)), "purged"),
    Chore(
        "uploads",
        lambda each: passes.expire_uploads(each.database, each.values.backends),
        None,
        is_due=uploads.HAS_EXPIRED,
        may_wait=True,
    ),
    Chore("old_queues", old_queues.run_once, None),
    Chore("lost_messages", lost_messages.run_once, "republished", is_due=lost_messages.IS_DUE),
    Chore(
        "stuck_joins",
        stuck_joins.run_once,
        "joins_checked",
        is_due=stuck_joins.IS_DUE,
        every=timedelta(seconds=3.5),
        is_under_way=stuck_joins.is_under_way,
    ),
    Chore(
        "statistics",
        lambda each: fold.run_once(each.database),
        None,
        is_due=fold.IS_DUE,
        every=timedelta(seconds=5),
        is_under_way=fold.is_under_way,
    ),
    Chore(
        "dispatches",
        lambda each: serverless.run_once(each.database, each.values, each.settings),
        "dispatched",
        is_due=serverless.IS_DUE,
        may_wait=True,
    ),
    Chore("storage", _storage, None, may_wait=True),
)


class Rhythm:
    """The chores that are due at each tick of a process that ticks on and on."""

    def __init__(self, database: Database, chores: Sequence[Chore] = CHORES) -> None:
        self._database = database
        self._chores = chores
        self._next = dict.fromkeys((chore.name for chore in chores), 0.0)

    def due(self, now: float) -> list[Chore]:
        """The chores of the tick at this time (s, monotonic clock), in their order."""
        due = [
            chore
            for chore in self._chores
            if now >= self._next[chore.name] or chore.is_under_way(self._database)
        ]
        self._next |= {chore.name: now + chore.every.total_seconds() for chore in due}
        return due


def conditions(chores: Iterable[Chore]) -> dict[str, str]:
    """SQL by the name of a chore: whether it has anything to do."""
    return {each.name: each.is_due for each in chores if each.is_due is not None}


def run_once(deployment: Deployment, chores: Iterable[Chore] = CHORES) -> Ticked:
    """Do one tick.

    During maintenance nothing is sent or moved: only lost workers are noted. While maintenance is waited for,
    everything goes on, and the tick enters it when the last run ended unnoticed.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    lease = leases.take(deployment.database, leases.TICK, LEASE, leases.this_thread())
    if lease is None:
        return Ticked(is_elsewhere=True)
    try:
        return _tick(deployment, chores, lease)
    except BaseException:
        leases.end(deployment.database, lease)
        raise


def _tick(deployment: Deployment, chores: Iterable[Chore], lease: Lease) -> Ticked:
    database = deployment.database
    impatient = replace(deployment, database=database.impatient())
    chores = tuple(chores)
    found = look(impatient.database, conditions(chores), _run_limit(deployment))
    is_quiet = found.mode == deployment_mode.MAINTENANCE
    due = [each for each in chores if each.runs_in_maintenance or not is_quiet]
    results: list[tuple[Chore, ChoreResult]] = []
    beside = replace(deployment, database=database.beside())
    patience_s = late_chores.WAIT_S
    for chore in _while_held(database, lease, due):
        # What an earlier chore did may be work for this one.
        is_idle = chore.name in found.idle and not any(result.done for _, result in results)
        if chore.may_wait and (not is_idle or late_chores.is_under_way(database, chore.name)):
            began = time.monotonic()
            result = late_chores.run(database, chore.name, partial(_result_of, chore, beside), patience_s)
            patience_s = max(0.0, patience_s - (time.monotonic() - began))
        elif is_idle:
            result = ChoreResult.of_nothing(chore.name)
        else:
            result = _result_of(chore, impatient)
        results.append((chore, result))
    with database.statements() as tx:
        if tick_status.note(tx, [result for _, result in results], lease) == deployment_mode.WAITING:
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
