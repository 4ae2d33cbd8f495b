"""Reads the versions of a pipeline."""

from __future__ import annotations

from pipeweave.orchestrator.documents.pipelines import Version
from pipeweave.orchestrator.registry import current_version
from pipeweave.orchestrator.registry.pipelines import CURRENT, NO_VERSION
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest

_VERSIONS = f"""
SELECT v.version, v.spec_hash, v.source, v.created_at, v.version = {CURRENT} AS is_current
FROM pipelines AS p JOIN pipeline_versions AS v ON v.tenant_id = p.tenant_id AND v.pipeline_id = p.id
WHERE p.tenant_id = :tenant AND p.id = :id AND v.version < :before ORDER BY v.version DESC LIMIT :limit
"""


def pipeline_versions(tx: Transaction, tenant: str, pipeline_id: str, page: PageRequest) -> Document:
    """The versions of a pipeline, newest first: {items, nextCursor}.

    Raises:
        NotFound: the tenant has no such pipeline.
    """
    after = page.after("versions", Int32)
    parameters = {"tenant": tenant, "id": pipeline_id, "before": after[0] if after else NO_VERSION}
    rows = tx.execute(_VERSIONS, {**parameters, "limit": page.limit + 1}).all()
    if not rows:
        current_version.read(tx, tenant, pipeline_id)
    return page.cut(rows, "versions", lambda row: (row.version,), Version.of)
