"""Doctor's checks of workers, tick, maintenance, queues, dead letters and stalled work."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from pipeweave.labels import in_words
from pipeweave.orchestrator.deployment import shared_settings
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import stalled
from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, error, fine, warning
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings

MOST_COUNTED = 10_000
SHOWN = 5
# A chore that succeeds again is still told of for this long after it failed.
RECENTLY = timedelta(minutes=10)


_ALIVE = """
SELECT w.tenant_id, w.service_id, w.hostname, count(*) AS number, sum(w.concurrency) AS slots
FROM workers AS w WHERE w.stopped_at IS NULL AND w.heartbeat_at >= now() - CAST(:after AS interval)
GROUP BY w.tenant_id, w.service_id, w.hostname ORDER BY w.tenant_id, w.service_id
"""

_DISCONNECTED = """
SELECT s.tenant_id, s.id FROM services AS s WHERE s.kind = 'python' AND s.status = 'disconnected'
ORDER BY s.tenant_id, s.id LIMIT 20
"""


def workers_alive(settings: Settings) -> Verdict:
    """Every service that did not shut down in order has a live worker."""
    with read_transaction(settings) as tx:
        rows = tx.execute(_ALIVE, {"after": worker_processes.LOST_AFTER}).all()
        lost = [f"{row.id} ({row.tenant_id})" for row in tx.execute(_DISCONNECTED)]
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[f"{row.service_id} ({row.tenant_id})"] += row.number
    shown = ", ".join(f"{number} of {service}" for service, number in list(counts.items())[:SHOWN])
    if not rows and settings.mode == "serverless" and not lost:
        return fine("no worker is running: with MODE=serverless the tick dispatches to HTTP services")
    if not rows:
        return warning(
            "no worker is running",
            "start one: `pipeweave worker --app MODULE`, or `pipeweave dispatcher` for HTTP services alone",
        )
    if lost:
        return warning(
            f"workers: {shown}; lost the last worker of: {', '.join(lost[:SHOWN])}",
            "start a worker of that service, unless the service is retired",
        )
    return fine(f"workers: {shown}, {sum(row.slots for row in rows)} task runs at once")


def one_storage(settings: Settings) -> Verdict:
    """Workers on several hosts share one storage, not a local folder on each host."""
    with read_transaction(settings) as tx:
        hosts = {row.hostname for row in tx.execute(_ALIVE, {"after": worker_processes.LOST_AFTER})}
    backends = settings.storage_backends
    is_bucket = bool(backends) and all(each["provider"] != "local" for each in backends)
    if is_bucket or len(hosts) <= 1:
        return fine("a bucket" if is_bucket else "a local folder, and all workers run on one host")
    return warning(
        f"a local folder, but workers run on {len(hosts)} hosts",
        "mount the same folder on all of them, or set STORAGE_BACKENDS to a bucket",
    )


def same_settings(settings: Settings) -> Verdict:
    """A process with these settings has the storage, keys and networks of those that live."""
    database = Database(settings.database_url or "", pool_size=0)
    try:
        differences = shared_settings.compare(database, settings)
    finally:
        database.dispose()
    if differences:
        return warning(
            "; ".join(f"{each.field} {each.message}" for each in differences),
            "a process with these settings is refused: `pipeweave env` prints those of a deployment",
        )
    return fine("storage, keys and networks are those of the processes that live")


def tick(settings: Settings) -> Verdict:
    """The tick runs."""
    with read_transaction(settings) as tx:
        last = tick_status.find(tx)
    complaint = tick_status.missed(last, settings, watched_for=timedelta.max)
    if complaint is not None:
        what, _, hint = complaint.partition(": ")
        return error(what, hint)
    if last.age is None:
        return fine("the tick is called from outside; there was none yet")
    return fine(f"the last tick was {last.age.total_seconds():.0f} s ago")


def chores(settings: Settings) -> Verdict:
    """The chores of the tick succeed, and in good time."""
    with read_transaction(settings) as tx:
        all_chores, now = tick_status.chores(tx), tx.execute("SELECT now()").scalar_one()
    failing = [chore for chore in all_chores if chore.failures]
    if failing:
        shown = "; ".join(_failing(chore) for chore in failing[:SHOWN])
        hint = "the log of beat says more under chore.failed and chore.item_failed"
        is_repeated = any(chore.failures >= tick_status.REPEATED for chore in failing)
        return error(shown, hint) if is_repeated else warning(shown, hint)
    slow = [chore for chore in all_chores if chore.took >= tick_status.SLOW]
    if slow:
        shown = ", ".join(f"{chore.name} {chore.took.total_seconds():.0f} s" for chore in slow[:SHOWN])
        return warning(f"chores of the tick are slow: {shown}", "until they end, nothing else is recovered")
    skipping = [
        chore
        for chore in all_chores
        if chore.skipped_since is not None and now - chore.skipped_since >= tick_status.SKIPPED_LONG
    ]
    if skipping:
        shown = ", ".join(_skipping(chore, now) for chore in skipping[:SHOWN])
        hint = "another transaction holds them: pg_blocking_pids and pg_stat_activity say which"
        return warning(f"chores of the tick skip locked rows: {shown}", hint)
    recent = [chore for chore in all_chores if chore.failed_at and now - chore.failed_at < RECENTLY]
    if recent:
        shown = ", ".join(f"{chore.name} ({chore.error_code})" for chore in recent[:SHOWN])
        return warning(
            f"chores of the tick failed recently: {shown}", "they succeed again; the log says more"
        )
    return fine("the chores of the tick succeed" if all_chores else "no chore of the tick ran yet")


def _failing(chore: tick_status.ChoreStatus) -> str:
    ticks = f"at the last {chore.failures:,} ticks" if chore.failures > 1 else "at the last tick"
    return f"the tick's chore {chore.name} failed {ticks} ({chore.error_code}): {chore.error}"


def _skipping(chore: tick_status.ChoreStatus, now: datetime) -> str:
    since = now - (chore.skipped_since or now)
    return f"{chore.name} {chore.skipped:,} for {since.total_seconds():.0f} s"


def mode(settings: Settings) -> Verdict:
    """New work is accepted."""
    with read_transaction(settings) as tx:
        current_mode = deployment_mode.mode(tx)
    if current_mode == deployment_mode.RUNNING:
        return fine("new work is accepted")
    return warning(f"the mode is {current_mode}: new work is refused", "`pipeweave maintenance exit` ends it")


# What waits in a parking queue is the matter of check_tasks.py. What is left in the own queue of a worker
# that is gone, the next tick places again.
_QUEUES = f"""
WITH RECURSIVE {placement.WITH_WORK}
SELECT q.queue FROM queues AS q
WHERE q.queue IS NOT NULL AND NOT {queue_names.is_apart_sql("q.queue")} AND NOT EXISTS (
    SELECT 1 FROM workers AS w LEFT JOIN services AS s ON s.tenant_id = w.tenant_id AND s.id = w.service_id
    WHERE {worker_processes.serves_sql("q.queue")}
      AND w.stopped_at IS NULL AND w.heartbeat_at >= now() - CAST(:after AS interval))
ORDER BY q.queue COLLATE "C"
"""


def queues(settings: Settings) -> Verdict:
    """A live worker consumes every queue in which task runs wait."""
    with read_transaction(settings) as tx:
        unserved_queues = list(tx.execute(_QUEUES, {"after": worker_processes.LOST_AFTER}).scalars())
    if settings.mode == "serverless":
        # There the tick dispatches.
        unserved_queues = [each for each in unserved_queues if not queue_names.is_dispatch(each)]
    if unserved_queues:
        names = ", ".join(map(_shown, unserved_queues[:SHOWN])) + (
            f" and {len(unserved_queues) - SHOWN} more" if unserved_queues[SHOWN:] else ""
        )
        return error(
            f"task runs wait in queues without a worker: {names}",
            "start a worker without --queues, or `pipeweave dispatcher`: it dispatches to HTTP services"
            if queue_names.is_dispatch(unserved_queues[0])
            else "start a worker that serves them: see --queues and --label",
        )
    return fine("every queue in which task runs wait has workers")


def _shown(queue: str) -> str:
    required = queue_names.required_in(queue)
    return f"{queue} (no worker has {in_words(required)})" if required else queue


_DEAD_LETTERS = """
SELECT count(*) FROM (SELECT 1 FROM dead_letters AS d WHERE d.retried_at IS NULL AND d.discarded_at IS NULL
                      LIMIT :most) AS d
"""


def dead_letters(settings: Settings) -> Verdict:
    """No dead letter is open."""
    with read_transaction(settings) as tx:
        number = int(tx.execute(_DEAD_LETTERS, {"most": MOST_COUNTED}).scalar_one())
    if number:
        shown = f"{number:,}" if number < MOST_COUNTED else f"{number:,} or more"
        letters = "dead letter" if number == 1 else "dead letters"
        return warning(
            f"{shown} open {letters}", "`pipeweave dlq groups` shows what failed; retry or discard them"
        )
    return fine("no open dead letters")


def stuck_work(settings: Settings) -> Verdict:
    """Nothing is stuck."""
    deployment = Deployment.open(settings, pool_size=0)
    try:
        with read_transaction(settings) as tx:
            stalled_items = stalled.find(tx, deployment.publisher, settings)
    finally:
        deployment.close()
    if not stalled_items:
        return fine("nothing is stuck")
    kinds = ", ".join(dict.fromkeys(each.kind.value for each in stalled_items))
    return warning(f"{len(stalled_items)} stuck: {kinds}", "`pipeweave recover` says since when and why")


CHECKS = (
    Check("workers", workers_alive, needs=("schema",)),
    Check("shared storage", one_storage, needs=("schema",)),
    Check("shared settings", same_settings, needs=("schema",)),
    Check("tick", tick, needs=("schema",)),
    Check("chores", chores, needs=("schema",)),
    Check("maintenance", mode, needs=("schema",)),
    Check("queues", queues, needs=("schema",)),
    Check("dead letters", dead_letters, needs=("schema",)),
    Check("stuck work", stuck_work, needs=("schema", "broker")),
)
