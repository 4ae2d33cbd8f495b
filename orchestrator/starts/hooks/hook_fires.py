"""Notes which hooks fire for a batch of events: those that the version of each run declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.starts import event_documents
from pipeweave.orchestrator.starts import fires as starts_fires
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import HOOK_STATUSES

_HOOKS_OF = {status: name for name, status in HOOK_STATUSES.items()}

_OF_RUNS = """
SELECT r.id, v.hooks FROM unnest(CAST(:ids AS uuid[])) AS w(id)
    JOIN runs AS r ON r.id = w.id
    JOIN pipeline_versions AS v ON v.tenant_id = r.tenant_id AND v.pipeline_id = r.pipeline_id
        AND v.version = r.pipeline_version AND v.hooks IS NOT NULL
"""


def of_ends(tx: Transaction, events: Sequence[FeedEvent]) -> dict[int, Sequence[Mapping[str, Any]]]:
    """By the number of an event that ends a run, the hooks that its version has for this end."""
    wanted = list({each.run_id for each in events if _name(each) is not None})
    rows = tx.execute(_OF_RUNS, {"ids": wanted}) if wanted else ()
    declared = {each.id: each.hooks for each in rows}
    pairs = ((each.seq, declared.get(each.run_id, {}).get(_name(each))) for each in events)
    return {seq: hooks for seq, hooks in pairs if hooks}


def _name(event: FeedEvent) -> str | None:
    """The member that holds the hooks for an event, such as `onFailure`."""
    if event.task_run_id is not None or event.pipeline_id is None:
        return None
    return _HOOKS_OF.get(event_documents.KINDS[event.type][1])


def fires(
    tx: Transaction,
    hooks: Sequence[Mapping[str, Any]],
    event: FeedEvent,
    document: Document,
    depths: Mapping[UUID, int],
) -> Iterator[Document]:
    """The fires of the end of one run.

    Args:
        hooks: of `of_ends`.
    """
    for place, hook in enumerate(hooks):
        yield {
            **starts_fires.of_event(tx, event, document, depths),
            "pipeline_id": event.pipeline_id,
            "hook": _name(event),
            "place": place,
            "target_pipeline": hook.get("pipeline"),
            "url": hook.get("url"),
            "secret": hook.get("secret"),
        }


def write(tx: Transaction, fires: Sequence[Document]) -> None:
    """Note these fires."""
    starts_fires.write(tx, "hook_fires", fires)
