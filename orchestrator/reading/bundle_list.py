"""Lists bundles, their versions and the keys of a tenant."""

from __future__ import annotations

from pipeweave.orchestrator.bundles.bundle_keys import MOST_KEYS
from pipeweave.orchestrator.bundles.installing import MOST_BUNDLES
from pipeweave.orchestrator.bundles.parking import IS_TRUSTED, SERVICE
from pipeweave.orchestrator.documents.bundles import BundleKey, BundleOrigin, BundleVersion, LoadingWorker
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

MOST_VERSIONS, MOST_WORKERS = 200, 100

_KEYS = """
SELECT id, name, added_at, added_by, revoked_at, revoke_reason FROM bundle_keys
WHERE tenant_id = :tenant ORDER BY revoked_at IS NOT NULL, lower(name), name, id LIMIT :most
"""


def bundle_keys(tx: Transaction, tenant: str) -> list[Document]:
    """All keys of a tenant, those that are trusted first."""
    return [BundleKey.of(row) for row in tx.execute(_KEYS, {"tenant": tenant, "most": MOST_KEYS})]


_COLUMNS = f"""b.id, b.version, b.content_hash, b.key_ids, b.size, b.files, b.python, b.task_ids AS tasks,
    b.pipeline_ids AS pipelines, b.installed_at, b.installed_by, b.revoked_at, b.revoke_reason,
    CASE WHEN b.state = 'installed' AND NOT {IS_TRUSTED} THEN 'untrusted' ELSE b.state END AS state,
    ARRAY(SELECT k.name FROM bundle_keys AS k WHERE k.tenant_id = b.tenant_id AND k.id = ANY(b.key_ids)
        AND k.revoked_at IS NULL ORDER BY k.name) AS key_names"""

_BUNDLES = f"""
SELECT DISTINCT ON (b.id) {_COLUMNS} FROM bundles AS b WHERE b.tenant_id = :tenant
ORDER BY b.id, b.state = 'installed' DESC, b.version_order DESC LIMIT :most
"""


def bundles(tx: Transaction, tenant: str) -> list[Document]:
    """The bundles of a tenant, each in the version that counts, else in its newest."""
    return [BundleVersion.of(row) for row in tx.execute(_BUNDLES, {"tenant": tenant, "most": MOST_BUNDLES})]


_VERSIONS = f"""
SELECT {_COLUMNS} FROM bundles AS b WHERE b.tenant_id = :tenant AND b.id = :id
ORDER BY b.version_order DESC LIMIT :most
"""


def bundle_versions(tx: Transaction, tenant: str, bundle_id: str) -> list[Document]:
    """The versions of a bundle, newest first.

    Raises:
        NotFound: the tenant has no such bundle.
    """
    rows = tx.execute(_VERSIONS, {"tenant": tenant, "id": bundle_id, "most": MOST_VERSIONS}).all()
    if not rows:
        raise unknown_names.not_found(tx, tenant, "bundle", bundle_id)
    return [BundleVersion.of(row) for row in rows]


# A worker that has not begun again yet has the code of the version before.
_WORKERS = """
SELECT w.id, w.name, w.started_at, count(*) AS task_count
FROM bundles AS b JOIN worker_tasks AS h ON h.tenant_id = b.tenant_id AND h.task_id = ANY(b.task_ids)
    JOIN tasks AS t ON t.tenant_id = b.tenant_id AND t.id = h.task_id AND t.code_hash = h.code_hash
    JOIN workers AS w ON w.id = h.worker_id
WHERE b.tenant_id = :tenant AND b.id = :id AND b.state = 'installed'
    AND w.service_id = :service AND w.stopped_at IS NULL
GROUP BY w.id ORDER BY w.started_at, w.id LIMIT :most
"""


def loading_workers(tx: Transaction, tenant: str, bundle_id: str) -> list[Document]:
    """The live workers that have loaded the version of a bundle that counts, the oldest first."""
    named = {"tenant": tenant, "id": bundle_id, "service": SERVICE, "most": MOST_WORKERS}
    return [LoadingWorker.of(row) for row in tx.execute(_WORKERS, named)]


_ORIGIN = """
SELECT b.id, b.version, b.key_ids FROM bundle_pipelines AS o JOIN bundles AS b
    ON b.tenant_id = o.tenant_id AND b.id = o.bundle_id AND b.version = o.bundle_version
WHERE o.tenant_id = :tenant AND o.pipeline_id = :pipeline AND o.version = :version
ORDER BY b.installed_at DESC LIMIT 1
"""


def origin_of(tx: Transaction, tenant: str, pipeline_id: str, version: int) -> Document | None:
    """The bundle that vouches for a version of a pipeline; None without one."""
    named = {"tenant": tenant, "pipeline": pipeline_id, "version": version}
    row = tx.execute(_ORIGIN, named).one_or_none()
    return None if row is None else BundleOrigin.of(row)
