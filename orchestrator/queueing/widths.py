"""Finds how many task runs of an `async def` task share a message: a worker's child calls them together.

A child runs one message at a time. So the message must be as wide as the child may call at once, and yet the
task runs that are ready together must reach all children of the workers that have the task.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction

# A task without such workers costs one look into a small index.
_FIND = """
SELECT min(h.concurrent) AS concurrent, sum(w.concurrency) AS children
FROM worker_tasks AS h JOIN workers AS w ON w.id = h.worker_id
WHERE h.tenant_id = :tenant AND h.task_id = :task AND h.concurrent > 1 AND h.is_served
  AND w.stopped_at IS NULL AND w.stopping_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class _Workers:
    """What the live workers of a task may call at once.

    Args:
        concurrent: calls in one child.
        children: of all of them; 0 if their calls run one by one.
        found_at: when they were looked for (s, monotonic clock).
    """

    concurrent: int
    children: int
    found_at: float


# A wrong width costs only time, so that every release of some task runs need not look.
FRESH_S = 1.0
_WORKERS = CacheSpec[tuple[str, str], _Workers]("widths of messages", 2_000)


def find(tx: Transaction, tenant: str, counts: Mapping[str, int]) -> dict[str, int]:
    """How many task runs share a message, by task id; a task whose calls run one by one is left out.

    Args:
        counts: the task runs of each task that are ready together.
    """
    several = sorted(task for task, count in counts.items() if count > 1)
    by_task = {each: _workers(tx, tenant, each) for each in several}
    return {
        task: width(counts[task], workers.concurrent, workers.children)
        for task, workers in by_task.items()
        if workers.children
    }


def _workers(tx: Transaction, tenant: str, task: str) -> _Workers:
    cache = tx.cache(_WORKERS)
    known = cache.get((tenant, task))
    if known is not None and time.monotonic() - known.found_at < FRESH_S:
        return known
    row = tx.execute(_FIND, {"tenant": tenant, "task": task}).one()
    workers = _Workers(row.concurrent or 1, int(row.children or 0), time.monotonic())
    cache.put((tenant, task), workers)
    return workers


def width(count: int, concurrent: int, children: int) -> int:
    """How many of `count` task runs share a message, so that every child gets a part of them.

    Args:
        concurrent: calls that a child may run at once.
        children: of all workers that have the task, from 1.
    """
    return max(1, min(concurrent, -(-count // children)))


def together(tx: Transaction, tenant: str, released: Iterable[Released]) -> Sequence[Released]:
    """The same entries of the outbox, each with how many of its task share a message."""
    entries = list(released)
    widths = find(tx, tenant, Counter(each.task_id for each in entries))
    if not widths:
        return entries
    return [replace(each, together=widths.get(each.task_id, 1)) for each in entries]


def send(tx: Transaction, rows: Iterable[Any]) -> None:
    """Send messages for rows of queued task runs, of any tenants, in their order."""
    of_tenants: dict[str, list[Released]] = defaultdict(list)
    for row in rows:
        ordinal = ids.ordinal_of(row.id)
        released = Released(row.run_id, ordinal, row.attempt, row.task_id, row.queue, row.priority)
        of_tenants[row.tenant_id].append(released)
    for tenant, mine in of_tenants.items():
        tx.send(*together(tx, tenant, mine))
