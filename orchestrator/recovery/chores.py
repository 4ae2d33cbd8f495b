"""The chores of the tick, in a table. A process whose tick is due runs those that do not rest (tick.py).

A chore that may take long, because it waits for a store or a service or has many rows to look at, runs beside
the tick (late_chores.py): what tidies never holds up what is due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.dispatch import polls, probes, serverless
from pipeweave.orchestrator.domain.states import ACTIVE_RUN, sql_in
from pipeweave.orchestrator.objects import passes, stored_bytes, uploads
from pipeweave.orchestrator.operations import bulk_changes, redrives, run_changes
from pipeweave.orchestrator.queueing import limits, paused_runs, pauses, placement
from pipeweave.orchestrator.recovery import (
    due_attempts,
    lost_attempts,
    lost_messages,
    old_queues,
    promotions,
    stuck_joins,
    task_moves,
    task_removals,
)
from pipeweave.orchestrator.registry import instances, worker_processes
from pipeweave.orchestrator.retention import expiry, partitions, tenant_deletion
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import admission, child_runs, deadlines, replacing
from pipeweave.orchestrator.starts import enqueued, event_consumer
from pipeweave.orchestrator.starts.hooks import run_starts, url_calls
from pipeweave.orchestrator.starts.schedules import firing
from pipeweave.orchestrator.starts.triggers import event_starts
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.telemetry.statistics import ageing, fold
from pipeweave.orchestrator.waits import due, left_children, quiet


# Each is equal to itself alone: what was made of some chores is found again without a look at their fields.
@dataclass(frozen=True, slots=True, eq=False)
class Chore:
    """A part of the tick.

    Args:
        name: in the log, in `tick_chores` and in `/health`.
        run_once: does what is due now and returns how much that was. It bounds its work, and the trouble of
            one run or tenant does not stop it for the others.
        counts: the field of `Ticked` that takes its count; None for work that nobody waits for.
        runs_in_maintenance: it sends nothing and moves no run.
        is_due: SQL: whether it has anything to do; None where only the chore itself knows.
        only_while: SQL: without this, which is asked once for several chores, there is nothing to do.
        has_news: the same where this process knows it, without asking a server.
        every: how long it rests in this process after it did all that it had to do.
        may_wait: it may wait for a store or a service, or have much to do: it runs beside the tick.
    """

    name: str
    run_once: Callable[[Deployment], int]
    counts: str | None
    runs_in_maintenance: bool = False
    is_due: str | None = None
    only_while: str | None = None
    has_news: Callable[[Database], bool] | None = None
    every: timedelta = timedelta()
    may_wait: bool = False


def _over(run_once: Callable[[Database], int]) -> Callable[[Deployment], int]:
    return lambda deployment: run_once(deployment.database)


def _with_values(run_once: Callable[[Database, Values], int]) -> Callable[[Deployment], int]:
    return lambda deployment: run_once(deployment.database, deployment.values)


def run_limit(deployment: Deployment) -> timedelta | None:
    """How long a run may take whose pipeline names no limit; None for any time."""
    limit = deployment.settings.max_execution_timeout
    return timedelta(milliseconds=limit) if limit else None


def _lost_workers(deployment: Deployment) -> int:
    with deployment.database.transaction() as tx:
        return len(worker_processes.mark_lost(tx))


def _pauses(deployment: Deployment) -> int:
    of_tasks = deployment.database.run(pauses.take_back)
    return of_tasks + paused_runs.take_back_waiting(deployment.database)


def _deadlines(deployment: Deployment) -> int:
    return deadlines.enforce(deployment.database, run_limit(deployment))


def _storage(deployment: Deployment) -> int:
    settings = deployment.settings
    return passes.run_once(
        deployment.database,
        deployment.values.backends,
        settings.storage_grace_hours,
        is_own_folder=not settings.storage_backends,
    )


def _partitions(deployment: Deployment) -> int:
    database = deployment.database
    return len(partitions.ensure_without_waiting(database, database.now()))


HOUR = timedelta(hours=1)

# To begin a statement costs PostgreSQL the more, the more tables and partitions are in it, whether they are
# read or not. While no run is open, a dozen conditions need not be asked.
_ACTIVE_RUNS = f"EXISTS (SELECT 1 FROM runs AS r WHERE r.status IN {sql_in(ACTIVE_RUN)})"
_OPEN_TASK_RUNS = """(EXISTS (SELECT 1 FROM task_runs AS t WHERE t.status = 'queued')
    OR EXISTS (SELECT 1 FROM task_runs AS t WHERE t.status = 'running')
    OR EXISTS (SELECT 1 FROM task_runs AS t WHERE t.status = 'ready')
    OR EXISTS (SELECT 1 FROM task_runs AS t WHERE t.status = 'pending' AND t.due_at IS NOT NULL))"""

# In this order: an attempt that is lost ends before the runs and limits that wait for it are looked at.
CHORES = (
    Chore("promotions", _over(promotions.run_once), None, has_news=promotions.has_news),
    Chore(
        "lost_workers",
        _lost_workers,
        "workers_lost",
        runs_in_maintenance=True,
        is_due=worker_processes.IS_SILENT,
    ),
    Chore(
        "lost_attempts",
        lost_attempts.run_once,
        "attempts_ended",
        is_due=lost_attempts.IS_DUE,
        only_while=_OPEN_TASK_RUNS,
    ),
    Chore("pauses", _pauses, "held_back", is_due=f"({pauses.IS_DUE} OR {paused_runs.IS_DUE})"),
    Chore(
        "due_attempts",
        due_attempts.run_once,
        "retries_released",
        is_due=due_attempts.IS_DUE,
        only_while=_OPEN_TASK_RUNS,
    ),
    Chore("waits", _over(due.run_once), "waits_ended", is_due=due.IS_DUE, may_wait=True),
    Chore(
        "stored_waits",
        _with_values(due.run_stored),
        "stored_waits_ended",
        is_due=due.IS_STORED_DUE,
        may_wait=True,
    ),
    Chore(
        "quiet_runs",
        _over(quiet.check_marks),
        None,
        is_due=quiet.MAY_BE_WRONG,
        every=timedelta(minutes=1),
        may_wait=True,
    ),
    Chore(
        "left_children",
        _over(left_children.check),
        None,
        is_due=child_runs.ARE_OPEN,
        every=timedelta(minutes=1),
    ),
    Chore("deadlines", _deadlines, "runs_timed_out", is_due=deadlines.IS_DUE, only_while=_ACTIVE_RUNS),
    Chore(
        "admission",
        _over(admission.admit_waiting),
        "runs_admitted",
        is_due=admission.IS_DUE,
        only_while=_ACTIVE_RUNS,
    ),
    Chore(
        "replaced_runs",
        _over(replacing.cancel_all_old),
        None,
        is_due=replacing.IS_DUE,
        only_while=_ACTIVE_RUNS,
    ),
    Chore("schedules", _with_values(firing.run_once), "schedules_fired", is_due=firing.IS_DUE, may_wait=True),
    # One transaction may have written very many events, and all that fires for them is noted together.
    Chore("events", _over(event_consumer.run_once), None, is_due=event_consumer.IS_DUE, may_wait=True),
    Chore(
        "triggers",
        _with_values(event_starts.run_once),
        "triggers_fired",
        is_due=event_starts.IS_DUE,
        may_wait=True,
    ),
    Chore("enqueued", _with_values(enqueued.run_once), "enqueued_started", is_due=enqueued.IS_DUE),
    Chore(
        "enqueued_large",
        _with_values(enqueued.run_large),
        "enqueued_large_started",
        is_due=enqueued.IS_LARGE_DUE,
        may_wait=True,
    ),
    Chore("hooks", _with_values(run_starts.run_once), "hooks_fired", is_due=run_starts.IS_DUE, may_wait=True),
    Chore(
        "hook_calls",
        lambda each: url_calls.run_once(each.database, each.settings),
        "hooks_called",
        is_due=url_calls.IS_DUE,
    ),
    Chore(
        "polls",
        lambda each: polls.run_once(each.database, each.values, each.settings),
        None,
        is_due=polls.IS_DUE,
        may_wait=True,
    ),
    Chore("task_moves", task_moves.run_once, "followers_brought", is_due=task_moves.IS_DUE),
    Chore(
        "task_removals", task_removals.run_once, "tasks_removed", every=timedelta(seconds=30), may_wait=True
    ),
    Chore(
        "placement",
        _over(placement.place_again),
        "placed",
        is_due=placement.IS_DUE,
        only_while=_OPEN_TASK_RUNS,
    ),
    Chore(
        "instances",
        lambda each: probes.run_once(each.database, each.settings.dispatch_networks),
        None,
        is_due=instances.IS_PROBE_DUE,
    ),
    Chore(
        "limits",
        _over(limits.fill_waiting),
        "limits_filled",
        is_due=limits.IS_DUE,
        only_while=_OPEN_TASK_RUNS,
    ),
    Chore(
        "redrives", _with_values(redrives.run_once), "redriven", is_due=redrives.TABLE.is_due, may_wait=True
    ),
    Chore(
        "bulk_changes",
        _with_values(run_changes.run_once),
        "bulk_changed",
        is_due=bulk_changes.TABLE.is_due,
        may_wait=True,
    ),
    # Partitions are made months ahead.
    Chore("partitions", _partitions, None, every=HOUR, may_wait=True),
    Chore(
        "expiry",
        lambda each: expiry.purge_batch(each.database, Policy.of(each.settings)),
        "purged",
        every=HOUR,
        may_wait=True,
    ),
    Chore(
        "uploads",
        lambda each: passes.expire_uploads(each.database, each.values.backends),
        None,
        is_due=uploads.HAS_EXPIRED,
        may_wait=True,
    ),
    Chore("stored_bytes", _over(stored_bytes.run_once), None, is_due=stored_bytes.IS_DUE, may_wait=True),
    Chore("old_queues", old_queues.run_once, None, every=HOUR, may_wait=True),
    Chore(
        "lost_messages",
        lost_messages.run_once,
        "republished",
        is_due=lost_messages.IS_DUE,
        only_while=_OPEN_TASK_RUNS,
        may_wait=True,
    ),
    Chore(
        "stuck_joins",
        stuck_joins.run_once,
        "joins_checked",
        is_due=stuck_joins.IS_DUE,
        only_while=_ACTIVE_RUNS,
        every=timedelta(seconds=3.5),
        may_wait=True,
    ),
    Chore(
        "statistics",
        _over(fold.run_once),
        None,
        is_due=fold.IS_DUE,
        every=timedelta(seconds=5),
        may_wait=True,
    ),
    Chore("old_statistics", _over(ageing.run_once), None, every=timedelta(minutes=10), may_wait=True),
    Chore(
        "dispatches",
        lambda each: serverless.run_once(each.database, each.values, each.settings),
        "dispatched",
        is_due=serverless.IS_DUE,
        only_while=_OPEN_TASK_RUNS,
        may_wait=True,
    ),
    Chore(
        "tenant_deletions",
        _over(tenant_deletion.run_once),
        None,
        is_due=tenant_deletion.IS_DUE,
        may_wait=True,
    ),
    Chore("storage", _storage, None, every=timedelta(minutes=1), may_wait=True),
)
