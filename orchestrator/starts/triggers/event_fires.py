"""Notes which triggers fire for a batch of events."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from uuid import UUID

from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.starts import event_documents
from pipeweave.orchestrator.starts.depths import LOOP, MAX_DEPTH
from pipeweave.orchestrator.starts.triggers import matching, row
from pipeweave.orchestrator.starts.triggers.row import PIPELINE_COMPLETED, StoredTrigger
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.orchestrator.store.keyset import Document

_TRIGGERS = f"""
SELECT {row.COLUMNS} FROM triggers AS t
WHERE t.kind = 'event' AND t.enabled AND t.tenant_id = ANY(CAST(:tenants AS text[]))
ORDER BY t.tenant_id, t.id
"""


def triggers(tx: Transaction, tenants: Collection[str]) -> list[StoredTrigger]:
    """The triggers of events that these tenants have and that are not paused."""
    return [row.of_row(each) for each in tx.execute(_TRIGGERS, {"tenants": list(tenants)})]


def candidates(
    triggers: Sequence[StoredTrigger], events: Sequence[FeedEvent]
) -> dict[int, list[StoredTrigger]]:
    """By the number of an event, the triggers that may fire for it, as far as the event alone tells."""
    by_kind: dict[tuple[str, str | None], list[StoredTrigger]] = {}
    for each in triggers:
        by_kind.setdefault((each.tenant, each.event), []).append(each)
    watching = ((event, by_kind.get((event.tenant, _kind(event)), ())) for event in events)
    found = ((event, [each for each in some if _may_fire(each, event)]) for event, some in watching)
    return {event.seq: some for event, some in found if some}


def _kind(event: FeedEvent) -> str:
    return event_documents.KINDS[event.type][0]


def _may_fire(trigger: StoredTrigger, event: FeedEvent) -> bool:
    """Whether a trigger may fire, as far as the event alone tells: nothing is read for the others."""
    if trigger.enabled_at is None or event.at < trigger.enabled_at:
        return False
    if trigger.event == PIPELINE_COMPLETED and event.pipeline_id is None:
        return False
    if event.pipeline_id == trigger.pipeline_id and not trigger.allows_self:
        return False
    known = {"pipelineId": event.pipeline_id, "status": event_documents.KINDS[event.type][1]}
    return matching.fits({name: trigger.filter[name] for name in known if name in trigger.filter}, known)


def fires(
    tx: Transaction,
    triggers: Sequence[StoredTrigger],
    event: FeedEvent,
    document: Document,
    depths: Mapping[UUID, int],
) -> Iterator[Document]:
    """The fires of one event: of those of these triggers whose filter fits."""
    for each in triggers:
        if matching.fits(each.filter, document):
            yield _fire(tx, each, event, document, depths.get(event.run_id, 0) + 1)


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


def write(tx: Transaction, fires: Sequence[Document]) -> None:
    """Note these fires."""
    if fires:
        tx.execute(_WRITE, {"fires": to_json(fires), "now": tx.now})
