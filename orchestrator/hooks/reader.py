"""The chore of the tick that reads the event feed, and notes what fires for it.

A batch of events, the fires that follow from it, and how far was read are one transaction: an event is read
once, whatever dies in between. What fires is only noted here, and starts later (firing.py): a run that cannot
start stops no other, and the reading goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import CursorExpired, InvalidInput, PipeWeaveError
from pipeweave.orchestrator.hooks import documents
from pipeweave.orchestrator.store.database import Database, Transaction, to_json
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.stream import FeedEvent, Place, Seen, feed, place_text
from pipeweave.orchestrator.triggers import matching, row
from pipeweave.orchestrator.triggers.row import PIPELINE_COMPLETED, StoredTrigger

log = logging.getLogger(__name__)

# One tick reads at most so many batches of so many events; the next tick goes on.
BATCHES = 10
BATCH = 500
# Runs that began each other one after the other.
MAX_DEPTH = 10
LOOP = "LOOP"

# SQL: whether anything fires for events.
IS_DUE = "EXISTS (SELECT 1 FROM event_reader)"


def run_once(database: Database) -> int:
    """Read what is new, and note what fires for it.

    Returns:
        How many fires were noted.
    """
    done = 0
    for _ in range(BATCHES):
        fires, more = database.run(read)
        done += fires
        if not more:
            break
    return done


_LOCK = """
SELECT CAST(e.since AS text) AS since, e.place, :now - e.read_at > interval '1 hour' AS is_old
FROM event_reader AS e FOR UPDATE SKIP LOCKED
"""
_STOP = "DELETE FROM event_reader"
_MOVE = "UPDATE event_reader SET place = :place, read_at = :now"


def read(tx: Transaction) -> tuple[int, bool]:
    """Read one batch of events, and note what fires for them.

    Returns:
        How many fires were noted, and whether there may be more events.
    """
    state = tx.execute(_LOCK, {"now": tx.now}).one_or_none()
    if state is None:
        return 0, False
    triggers = _triggers(tx)
    if not triggers:
        tx.execute(_STOP)
        return 0, False
    place = _resumed(tx, state)
    begin = place or feed.latest(tx)
    wanted = {each.event for each in triggers}
    types = [name for name, (kind, _) in documents.KINDS.items() if kind in wanted]
    batch = feed.read_after(tx, begin, types=types, limit=BATCH)
    fires = list(_fires(tx, triggers, batch.events))
    _write(tx, fires)
    # An idle deployment writes nothing, but the place must not become too old.
    if state.place is None or state.is_old or place is None or _has_moved(place, batch.place):
        tx.execute(_MOVE, {"place": place_text.write(batch.place, feed.identity(tx)), "now": tx.now})
    return len(fires), batch.more


def _has_moved(before: Place, after: Place) -> bool:
    return (before.seen, before.next, before.seq) != (after.seen, after.next, after.seq)


def _resumed(tx: Transaction, state: Any) -> Place | None:
    """Where the reading goes on; None where that cannot be told any more, and it begins anew."""
    if state.place is None:
        return Place(Seen(int(state.since)))
    try:
        return feed.resume(tx, state.place)
    except (CursorExpired, InvalidInput) as error:
        log.warning("triggers.events_missed", extra={"reason": error.detail})
        return None


_TRIGGERS = f"""
SELECT {row.COLUMNS} FROM triggers AS t WHERE t.kind = 'event' AND t.enabled ORDER BY t.tenant_id, t.id
"""


def _triggers(tx: Transaction) -> list[StoredTrigger]:
    return [row.of_row(each) for each in tx.execute(_TRIGGERS)]


def _fires(
    tx: Transaction, triggers: Sequence[StoredTrigger], events: Sequence[FeedEvent]
) -> Iterator[Document]:
    """The fires of a batch, in the order of the events."""
    by_kind: dict[tuple[str, str | None], list[StoredTrigger]] = {}
    for each in triggers:
        by_kind.setdefault((each.tenant, each.event), []).append(each)
    watching = ((event, by_kind.get((event.tenant, _kind(event)), ())) for event in events)
    fitting = ((event, [each for each in some if _may_fire(each, event)]) for event, some in watching)
    candidates = [(event, some) for event, some in fitting if some]
    task_runs = documents.task_runs(tx, [event for event, _ in candidates])
    depths = _depths(tx, [event.run_id for event, _ in candidates])
    for event, some in candidates:
        document = _document(tx, event, task_runs)
        for trigger in some if document is not None else ():
            assert document is not None
            if matching.fits(trigger.filter, document):
                yield _fire(tx, trigger, event, document, depths.get(event.run_id, 0) + 1)


def _kind(event: FeedEvent) -> str:
    return documents.KINDS[event.type][0]


def _may_fire(trigger: StoredTrigger, event: FeedEvent) -> bool:
    """Whether a trigger may fire, as far as the event alone tells: nothing is read for the others."""
    if trigger.enabled_at is None or event.at < trigger.enabled_at:
        return False
    if trigger.event == PIPELINE_COMPLETED and event.pipeline_id is None:
        return False
    if event.pipeline_id == trigger.pipeline_id and not trigger.allows_self:
        return False
    known = {"pipelineId": event.pipeline_id, "status": documents.KINDS[event.type][1]}
    return matching.fits({name: trigger.filter[name] for name in known if name in trigger.filter}, known)


def _document(tx: Transaction, event: FeedEvent, task_runs: Mapping[UUID, Any]) -> Document | None:
    if event.task_run_id is not None:
        found = task_runs.get(event.task_run_id)
        return None if found is None else documents.of_task_run(event, found)
    try:
        return documents.of_run(tx, event)
    except PipeWeaveError as error:
        # The event fires nothing; those after it do.
        extra = {"run_id": ids.show(ids.RUN, event.run_id), "reason": error.detail}
        log.error("triggers.event_unreadable", extra=extra)
        return None


_DEPTHS = """
SELECT f.started_run_id, max(f.depth) AS depth FROM event_fires AS f
WHERE f.started_run_id = ANY(CAST(:ids AS uuid[])) GROUP BY f.started_run_id
"""


def _depths(tx: Transaction, run_ids: Iterable[UUID]) -> dict[UUID, int]:
    """How many fires led to each of these runs; those that none led to are left out."""
    wanted = list(set(run_ids))
    rows = tx.execute(_DEPTHS, {"ids": wanted}) if wanted else ()
    return {each.started_run_id: each.depth for each in rows}


def _fire(
    tx: Transaction, trigger: StoredTrigger, event: FeedEvent, document: Document, depth: int
) -> Document:
    is_loop = depth > MAX_DEPTH
    return {
        "id": str(tx.new_id()),
        "tenant_id": trigger.tenant,
        "trigger_id": trigger.id,
        "run_id": str(event.run_id),
        "seq": event.seq,
        "event": document,
        "depth": depth,
        "outcome": "skipped" if is_loop else "waiting",
        "reason": LOOP if is_loop else None,
    }


_WRITE = """
INSERT INTO event_fires (id, tenant_id, trigger_id, run_id, seq, event, depth, outcome, reason, created_at,
    due_at, fired_at)
SELECT f.id, f.tenant_id, f.trigger_id, f.run_id, f.seq, f.event, f.depth, f.outcome, f.reason, :now,
    CASE WHEN f.outcome = 'waiting' THEN CAST(:now AS timestamptz) END,
    CASE WHEN f.outcome <> 'waiting' THEN CAST(:now AS timestamptz) END
FROM jsonb_to_recordset(CAST(:fires AS jsonb)) AS f(id uuid, tenant_id text, trigger_id text, run_id uuid,
    seq bigint, event jsonb, depth integer, outcome text, reason text)
ON CONFLICT DO NOTHING
"""


def _write(tx: Transaction, fires: Sequence[Document]) -> None:
    if fires:
        tx.execute(_WRITE, {"fires": to_json(fires), "now": tx.now})
