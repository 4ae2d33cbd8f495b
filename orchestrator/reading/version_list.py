"""Reads the versions of a pipeline."""

from __future__ import annotations

from pipeweave.orchestrator.documents.pipelines import Version
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.registry.pipelines import LATEST_VERSION, NO_VERSION
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest

_VERSIONS = """
SELECT version, spec_hash, source, created_at FROM pipeline_versions
WHERE tenant_id = :tenant AND pipeline_id = :id AND version < :before ORDER BY version DESC LIMIT :limit
"""


def pipeline_versions(tx: Transaction, tenant: str, pipeline_id: str, page: PageRequest) -> Document:
    """The versions of a pipeline, newest first: {items, nextCursor}.

    Raises:
        NotFound: the tenant has no such pipeline.
    """
    after = page.after("versions", Int32)
    parameters = {"tenant": tenant, "id": pipeline_id, "before": after[0] if after else NO_VERSION}
    rows = tx.execute(_VERSIONS, {**parameters, "limit": page.limit + 1}).all()
    if not rows and tx.execute(LATEST_VERSION, parameters).first() is None:
        raise unknown_names.not_found(tx, tenant, "pipeline", pipeline_id, pipelineId=pipeline_id)
    return page.cut(rows, "versions", lambda row: (row.version,), Version.of)
