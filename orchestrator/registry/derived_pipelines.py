"""Stores the pipelines that `allowedNext` of an HTTP service's tasks describes.

A Celery worker derives those of its app before it registers. An HTTP service only names the successors of its
tasks; some may belong to a service that registers later. So each registration looks at all tasks of the
tenant: it stores the pipelines that are whole now, and none of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pipeweave.errors import InvalidSpec
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.registration import Registration
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import PipelineSpec, derive

log = logging.getLogger(__name__)

SOURCE = "derived"
# One registration derives pipelines with so many steps and edges at most.
MOST_PARTS = 100_000


@dataclass(frozen=True, slots=True)
class _Linked:
    id: str
    allowed_next: tuple[str, ...]
    description: str | None


_TASKS = "SELECT id, allowed_next, description FROM tasks WHERE tenant_id = :tenant AND orphaned_at IS NULL"


def store(tx: Transaction, tenant: str, registration: Registration) -> None:
    """Store the derived pipelines that a registered service takes part in, each as its next version if it
    has changed. One that cannot be derived is left out with a warning: the service can do its other work.
    """
    rows = tx.execute(_TASKS, {"tenant": tenant})
    tasks = {row.id: _Linked(row.id, tuple(row.allowed_next), row.description) for row in rows}
    after = {task.id: task.allowed_next for task in tasks.values()}
    left = MOST_PARTS
    for entry in _entries({task.id for task in registration.tasks}, after):
        members = [tasks[each] for each in sorted(_reached([entry], after)) if each in tasks]
        left -= sum(1 + len(each.allowed_next) for each in members)
        if left < 0:
            _warn(
                tenant, entry, f"derived pipelines of one service have at most {MOST_PARTS:,} steps and edges"
            )
            return
        try:
            [spec] = derive(members)
            _store(tx, tenant, spec)
        except InvalidSpec as error:
            _warn(tenant, entry, error.detail)


def _entries(own: Collection[str], after: Mapping[str, Collection[str]]) -> list[str]:
    """The tasks that have successors, follow no other task, and lead to a task of the service."""
    before: dict[str, set[str]] = {}
    for id, successors in after.items():
        for each in successors:
            before.setdefault(each, set()).add(id)
    related = _reached(own, before)
    return sorted(each for each in related if after.get(each) and each not in before)


def _reached(start: Collection[str], edges: Mapping[str, Collection[str]]) -> set[str]:
    reached, open_ones = set(start), list(start)
    while open_ones:
        new = set(edges.get(open_ones.pop(), ())) - reached
        reached |= new
        open_ones += new
    return reached


# A pipeline that somebody wrote is worth more than one that was derived.
_WRITTEN = """
SELECT 1 FROM pipelines AS p JOIN pipeline_versions AS v
    ON v.tenant_id = p.tenant_id AND v.pipeline_id = p.id AND v.version = p.latest_version
WHERE p.tenant_id = :tenant AND p.id = :id AND v.source <> :source
"""


def _store(tx: Transaction, tenant: str, spec: PipelineSpec) -> None:
    if tx.execute(_WRITTEN, {"tenant": tenant, "id": spec.id, "source": SOURCE}).first() is not None:
        return
    stored = pipelines.store(tx, tenant, spec, source=SOURCE)
    if stored.is_new:
        names = {"tenant": tenant, "pipeline_id": spec.id, "version": stored.version}
        log.info("pipeline.stored", extra=names)


def _warn(tenant: str, entry: str, reason: str) -> None:
    log.warning("pipeline.not_derived", extra={"tenant": tenant, "pipeline_id": entry, "reason": reason})
