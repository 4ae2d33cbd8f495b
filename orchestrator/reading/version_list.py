"""Reads the versions of a pipeline."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.documents.pipelines import Version
from pipeweave.orchestrator.registry import current_version
from pipeweave.orchestrator.registry.pipelines import CURRENT, NO_VERSION
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, Int32, PageRequest

_VERSIONS = f"""
SELECT v.version, v.spec_hash, v.source, v.created_at, v.version = {CURRENT} AS is_current,
    CASE WHEN v.version = p.promoted_version THEN p.promoted_at END AS promoted_at,
    CASE WHEN v.version = p.promoted_version THEN p.promoted_by END AS promoted_by,
    coalesce(v.version = p.previous_version, false) AS is_previous,
    b.bundle_id, b.bundle_version, b.key_ids
FROM pipelines AS p JOIN pipeline_versions AS v ON v.tenant_id = p.tenant_id AND v.pipeline_id = p.id
LEFT JOIN LATERAL (
    SELECT o.bundle_id, o.bundle_version, b.key_ids FROM bundle_pipelines AS o JOIN bundles AS b
        ON b.tenant_id = o.tenant_id AND b.id = o.bundle_id AND b.version = o.bundle_version
    WHERE o.tenant_id = p.tenant_id AND o.pipeline_id = p.id AND o.version = v.version
    ORDER BY b.installed_at DESC LIMIT 1) AS b ON true
WHERE p.tenant_id = :tenant AND p.id = :id AND v.version < :before ORDER BY v.version DESC LIMIT :limit
"""


def pipeline_versions(tx: Transaction, tenant: str, pipeline_id: str, page: PageRequest) -> Document:
    """The versions of a pipeline with where each came from, newest first: {items, nextCursor}.

    Raises:
        NotFound: the tenant has no such pipeline.
    """
    after = page.after("versions", Int32)
    parameters = {"tenant": tenant, "id": pipeline_id, "before": after[0] if after else NO_VERSION}
    rows = tx.execute(_VERSIONS, {**parameters, "limit": page.limit + 1}).all()
    if not rows:
        current_version.read(tx, tenant, pipeline_id)
    return page.cut(rows, "versions", lambda row: (row.version,), _version)


def _version(row: Any) -> Document:
    members = {"id": row.bundle_id, "version": row.bundle_version, "keyIds": row.key_ids}
    return Version.of(row, bundle=None if row.bundle_id is None else members)
