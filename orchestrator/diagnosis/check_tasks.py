"""Doctor's checks of tasks: each one that is needed is loaded by a live worker, in the registered code; and
what is paused.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from pipeweave import ids
from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.queueing import placement
from pipeweave.orchestrator.registry import gone_tasks
from pipeweave.settings import Settings

MOST = 100
SHOWN = 5


def loaded(settings: Settings) -> Verdict:
    """No task whose service has workers, and none for which work waits, is without a live worker for long."""
    grace = timedelta(seconds=settings.task_gone_after_seconds)
    with read_transaction(settings) as tx:
        gone = gone_tasks.find(tx, after=grace, most=MOST)
        waiting: Counter[tuple[str, str]] = Counter()
        for each in placement.parked(tx):
            waiting[each.tenant, each.task_id] += each.number
    missing_tasks = [each for each in gone if each.has_workers or waiting[each.tenant, each.id]]
    if not missing_tasks:
        return fine("live workers have every task that is in use")
    shown = "; ".join(
        f"{each.id} ({each.tenant}) since {iso(each.last_seen)}, {waiting[each.tenant, each.id]:,} wait"
        for each in missing_tasks[:SHOWN]
    )
    more = f" and {len(missing_tasks) - SHOWN} more" if missing_tasks[SHOWN:] else ""
    return warning(
        f"no live worker has: {shown}{more}",
        "start a worker that loads them, or `pipeweave tasks remove TASK`",
    )


# What a registration over HTTP, or a worker that left soon, may leave behind.
_OTHER_CODE = """
SELECT t.tenant_id, t.id FROM tasks AS t
WHERE t.orphaned_at IS NULL AND EXISTS (
    SELECT 1 FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id
    WHERE w.stopped_at IS NULL AND h.tenant_id = t.tenant_id AND h.task_id = t.id)
AND NOT EXISTS (
    SELECT 1 FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id
    WHERE w.stopped_at IS NULL AND h.tenant_id = t.tenant_id AND h.task_id = t.id
      AND h.code_hash = t.code_hash)
ORDER BY t.tenant_id, t.id LIMIT :most
"""
_VERSIONS = """
SELECT count(*) FROM (
    SELECT 1 FROM workers AS w JOIN worker_tasks AS h ON h.worker_id = w.id WHERE w.stopped_at IS NULL
    GROUP BY h.tenant_id, h.task_id HAVING count(DISTINCT h.code_hash) > 1) AS m
"""


def code(settings: Settings) -> Verdict:
    """The registered code of each task is that of a live worker."""
    with read_transaction(settings) as tx:
        tasks = [f"{row.id} ({row.tenant_id})" for row in tx.execute(_OTHER_CODE, {"most": MOST})]
        mixed = int(tx.execute(_VERSIONS).scalar_one())
    if tasks:
        more = f" and {len(tasks) - SHOWN} more" if tasks[SHOWN:] else ""
        return warning(
            f"live workers have other code than is registered: {', '.join(tasks[:SHOWN])}{more}",
            "restart one of their workers: it registers the code that it has",
        )
    if mixed:
        return fine(f"live workers have several versions of {mixed:,} tasks: see `pipeweave deploys`")
    return fine("live workers have one version of each task")


_PAUSED_RUNS = """
SELECT p.run_id, p.paused_at, p.paused_by, count(*) OVER () AS number FROM run_pauses AS p
ORDER BY p.paused_at LIMIT 1
"""
_PAUSED_TASKS = "SELECT count(*) FROM pauses"


def paused(settings: Settings) -> Verdict:
    """What is paused: nothing is wrong with it, but it may have been forgotten."""
    with read_transaction(settings) as tx:
        tasks = int(tx.execute(_PAUSED_TASKS).scalar_one())
        oldest = tx.execute(_PAUSED_RUNS).first()
    parts = [f"{tasks:,} tasks or tenants are paused: see `pipeweave queue`"] if tasks else []
    if oldest is not None:
        who = f" by {oldest.paused_by}" if oldest.paused_by else ""
        since = f"{ids.show(ids.RUN, oldest.run_id)} since {iso(oldest.paused_at)}{who}"
        parts.append(f"{oldest.number:,} runs are paused, {since} for the longest time")
    return fine("; ".join(parts) or "nothing is paused")


CHECKS = (
    Check("tasks", loaded, needs=("schema",)),
    Check("code", code, needs=("schema",)),
    Check("pauses", paused, needs=("schema",)),
)
