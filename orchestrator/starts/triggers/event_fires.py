"""Notes which triggers fire for a batch of events."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from uuid import UUID

from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.starts import event_documents
from pipeweave.orchestrator.starts import fires as starts_fires
from pipeweave.orchestrator.starts.triggers import matching, row
from pipeweave.orchestrator.starts.triggers.row import PIPELINE_COMPLETED, StoredTrigger
from pipeweave.orchestrator.store.database import Transaction
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
    pairs = ((event, [each for each in some if _may_fire(each, event)]) for event, some in watching)
    return {event.seq: some for event, some in pairs if some}


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
            yield {**starts_fires.of_event(tx, event, document, depths), "trigger_id": each.id}


def write(tx: Transaction, fires: Sequence[Document]) -> None:
    """Note these fires."""
    starts_fires.write(tx, "event_fires", fires)
