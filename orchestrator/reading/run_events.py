"""Reads the events of a run in the order of their numbers, so that paging never skips one.

An event draws its number before its transaction commits: a higher number may become visible before a lower
one. A page therefore ends before the first event that was written after the oldest transaction began that has
drawn a number and not ended: a lower number may still come. Such transactions take milliseconds, so a reader
rarely notices; the rest follows with the next request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.documents.runs import KeptEvent, RunEvent
from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.domain.checkpoints import MOVING, STATE_UPDATED, as_state_updated
from pipeweave.orchestrator.reading.runs import require_run
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

# A page that would end early is read again for this long, at most, and after this pause.
WAIT_S = 0.25
PAUSE_S = 0.01
# Assumed of a session of another role, which does not show when its transaction began.
LONGEST_TRANSACTION = timedelta(minutes=10)

# A transaction that draws a number locks the sequence first, and until it ends. This statement began before
# it looks for these locks. So no lower number may still come than that of an event written before its result.
_SETTLED = """
SELECT least(statement_timestamp(),
             min(coalesce(a.xact_start, statement_timestamp() - CAST(:longest AS interval)))) AS before
FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.relation = CAST('event_seq' AS regclass) AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  AND a.state IS DISTINCT FROM 'idle'
"""

# NULL: written by a version that did not store the time, long ago.
_EVENTS = """
SELECT e.seq, e.at, e.type, e.task_run_id, e.attempt, e.data,
       e.written_at IS NULL OR e.written_at < CAST(:before AS timestamptz) AS is_settled
FROM events AS e
WHERE e.run_id = :id AND e.seq > :after
  AND (CAST(:types AS text[]) IS NULL OR e.type = ANY(CAST(:types AS text[])))
  AND (CAST(:task_run AS uuid) IS NULL OR e.task_run_id = :task_run)
ORDER BY e.seq LIMIT :limit
"""


def run_events(
    tx: Transaction,
    tenant: str,
    id: UUID,
    page: PageRequest,
    *,
    type: str | None = None,
    task_run_id: str | None = None,
) -> Document:
    """The events of a run, oldest first: {items, nextCursor}.

    Args:
        type: only events of this type; STATE_UPDATED for all that change the state, told by this name.
        task_run_id: only events about this task run alone.

    An event that is not shown yet, because one with a lower number may still come, is on a later page.

    Raises:
        NotFound: the tenant has no such run.
    """
    trace_id = tracing.trace_id(id, require_run(tx, tenant, id))
    if type == STATE_UPDATED:
        show = partial(_as_state_updated, id=id, trace_id=trace_id)
        return _page(tx, id, page, MOVING, show, task_run_id)
    types = None if type is None else frozenset((type,))
    return _page(tx, id, page, types, partial(_with_trace, trace_id=trace_id), task_run_id)


def events_of_types(
    tx: Transaction,
    tenant: str,
    id: UUID,
    page: PageRequest,
    types: Collection[str],
    show: Callable[[Any], Document],
) -> Document:
    """The events of a run that have one of these types, as `run_events` pages them, shown otherwise.

    Raises:
        NotFound: the tenant has no such run.
    """
    require_run(tx, tenant, id)
    return _page(tx, id, page, types, show)


def _page(
    tx: Transaction,
    id: UUID,
    page: PageRequest,
    types: Collection[str] | None,
    show: Callable[[Any], Document],
    task_run_id: str | None = None,
) -> Document:
    after = page.after("events", int)
    parameters = {
        "id": id,
        "after": after[0] if after else -1,
        "types": None if types is None else sorted(types),
        "task_run": task_run_id and ids.read(ids.TASK_RUN, task_run_id),
        "limit": page.limit + 1,
    }
    until = time.monotonic() + WAIT_S
    while True:
        # Before the page is read: what ends in between is visible to the page.
        before = settled_before(tx)
        rows: list[Any] = tx.execute(_EVENTS, {**parameters, "before": before}).all()
        settled = list(takewhile(lambda row: row.is_settled, rows))
        if len(settled) == len(rows) or time.monotonic() > until:
            return page.cut(settled, "events", lambda row: (row.seq,), show)
        time.sleep(PAUSE_S)


def settled_before(tx: Transaction) -> datetime:
    """The time before which an event was written if no lower number than its own can still come."""
    moment: datetime = tx.execute(_SETTLED, {"longest": LONGEST_TRANSACTION}).scalar_one()
    return moment


def _with_trace(row: Any, trace_id: str) -> Document:
    return event_row(row, RunEvent, trace_id=trace_id)


def _as_state_updated(row: Any, id: UUID, trace_id: str) -> Document:
    return _with_trace(row, trace_id) | as_state_updated(id, row.seq, row.type)


def event_row(row: Any, answer: type[KeptEvent] = KeptEvent, **more: Any) -> Document:
    """An event as its row has it."""
    data = row.data or {}
    return answer.of(row, actor=data.get("by") or data.get("worker"), data=data, **more)
