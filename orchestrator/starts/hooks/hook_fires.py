"""Notes which hooks fire for a batch of events: those that the version of each run declares.

The hooks of an approval are those of the pipeline of its run or, where that declares none, of the nearest run
that it belongs to: who starts a pipeline in a step of another is told of its approvals, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.starts import approval_documents, event_documents
from pipeweave.orchestrator.starts import fires as starts_fires
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import HOOK_STATUSES, ON_WAITING

# Why the hook of an approval is skipped: it was decided before.
OVER = "over"

_HOOKS_OF = {status: name for name, status in HOOK_STATUSES.items()}


@dataclass(frozen=True, slots=True)
class DeclaredHooks:
    """Hooks that fire for an event.

    Args:
        pipeline_id: which pipeline declares them.
        root: the first run of the tree that the event's run belongs to.
    """

    pipeline_id: str
    root: UUID
    hooks: Sequence[Mapping[str, Any]]


_OF_RUNS = """
SELECT r.id, r.id AS root, r.pipeline_id, v.hooks FROM unnest(CAST(:ids AS uuid[])) AS w(id)
    JOIN runs AS r ON r.id = w.id
    JOIN pipeline_versions AS v ON v.tenant_id = r.tenant_id AND v.pipeline_id = r.pipeline_id
        AND v.version = r.pipeline_version AND v.hooks IS NOT NULL
"""
_OF_APPROVALS = f"""
WITH RECURSIVE line AS (
    SELECT r.id AS below, r.id, r.parent_run_id, r.tenant_id, r.pipeline_id, r.pipeline_version, 0 AS up,
        coalesce(r.root_run_id, r.id) AS root
    FROM unnest(CAST(:ids AS uuid[])) AS w(id) JOIN runs AS r ON r.id = w.id
    UNION ALL
    SELECT l.below, r.id, r.parent_run_id, r.tenant_id, r.pipeline_id, r.pipeline_version, l.up + 1,
        l.root
    FROM line AS l JOIN runs AS r ON r.id = l.parent_run_id
)
SELECT DISTINCT ON (l.below) l.below AS id, l.root, l.pipeline_id, v.hooks
FROM line AS l JOIN pipeline_versions AS v ON v.tenant_id = l.tenant_id AND v.pipeline_id = l.pipeline_id
    AND v.version = l.pipeline_version AND v.hooks ? '{ON_WAITING}'
ORDER BY l.below, l.up
"""


def of_events(tx: Transaction, events: Sequence[FeedEvent]) -> dict[int, DeclaredHooks]:
    """By the number of an event that ends a run, or begins an approval, the hooks declared for it."""
    approvals = [each for each in events if approval_documents.is_approval(each)]
    ends = [each for each in events if each.task_run_id is None and _name(each) is not None]
    of_runs = tx.execute(_OF_RUNS, _runs_of(ends)).all() if ends else []
    of_approvals = tx.execute(_OF_APPROVALS, _runs_of(approvals)).all() if approvals else []
    return dict(_declared(ends, of_runs)) | dict(_declared(approvals, of_approvals))


def _runs_of(events: Collection[FeedEvent]) -> dict[str, list[UUID]]:
    return {"ids": list({each.run_id for each in events})}


def _declared(events: Collection[FeedEvent], rows: Iterable[Any]) -> Iterator[tuple[int, DeclaredHooks]]:
    by_run = {row.id: row for row in rows}
    for each in events:
        row = by_run.get(each.run_id)
        if row is not None and (hooks := row.hooks.get(_name(each))):
            yield each.seq, DeclaredHooks(row.pipeline_id, row.root, hooks)


def _name(event: FeedEvent) -> str | None:
    """The member that holds the hooks for an event, such as `onFailure`."""
    if approval_documents.is_approval(event):
        return ON_WAITING
    if event.task_run_id is not None or event.pipeline_id is None:
        return None
    return _HOOKS_OF.get(event_documents.KINDS[event.type][1])


def fires(
    tx: Transaction,
    declared: DeclaredHooks,
    event: FeedEvent,
    document: Document,
    depths: Mapping[UUID, int],
) -> Iterator[Document]:
    """The fires of one event.

    Args:
        declared: of `of_events`.
        depths: how many fires led to each root.
    """
    depths_of_run = {event.run_id: depths.get(declared.root, 0)}
    skipped = {"outcome": "skipped", "reason": OVER} if approval_documents.is_over(document) else {}
    for place, hook in enumerate(declared.hooks):
        yield {
            **starts_fires.of_event(tx, event, document, depths_of_run),
            **skipped,
            "pipeline_id": declared.pipeline_id,
            "hook": _name(event),
            "place": place,
            "target_pipeline": hook.get("pipeline"),
            "url": hook.get("url"),
            "secret": hook.get("secret"),
        }


def write(tx: Transaction, fires: Sequence[Document]) -> None:
    """Note these fires."""
    starts_fires.write(tx, "hook_fires", fires)
