"""Says whether a tenant may read an object: the rows decide, not the path that a caller names."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.objects.paths import ArtifactPath, AttemptPath, RunPath, UploadPath
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.storage.references import ObjectRef

_RUN = "SELECT 1 FROM runs WHERE id = :run_id AND tenant_id = :tenant"
_TASK_RUN = "SELECT 1 FROM task_runs WHERE run_id = :run_id AND id = :id AND tenant_id = :tenant"
# A result that was taken over has its files where the task run has put them that made it.
_REUSED = """
SELECT 1 FROM task_runs AS u
WHERE u.cached_from = :id AND u.assets IS NOT NULL AND u.tenant_id = :tenant LIMIT 1
"""
_UPLOAD = """
SELECT 1 FROM temp_uploads
WHERE id = :id AND tenant_id = :tenant AND storage_path = ANY(CAST(:names AS text[])) AND deleted_at IS NULL
"""


def _named_by(table: str, column: str) -> str:
    return f"""EXISTS (SELECT 1 FROM {table} AS r
        WHERE r.{column} = ANY(CAST(:names AS text[])) AND r.tenant_id = :tenant)"""


# The row of a value names its object.
NAMING = (
    ("runs", "input_path"),
    ("task_runs", "output_path"),
    ("dead_letters", "input_path"),
    ("idempotency_claims", "output_path"),
    ("signals", "payload_path"),
    ("bundles", "storage_path"),
)
_CLAIMS = ("asset_claims", "path")
_NAMED = f"SELECT 1 WHERE {' OR '.join(_named_by(*each) for each in (*NAMING, _CLAIMS))}"


def may_read(tx: Transaction, tenant: str, where: ObjectRef, default_backend: str) -> bool:
    """Whether a row of the tenant refers to the object, or the object is of an attempt or run of the tenant.

    Whether the object exists is not looked at.
    """
    own = paths.read(where.path)
    mine: dict[str, Any] = {"tenant": tenant}
    if isinstance(own, ArtifactPath | UploadPath):
        mine |= {"names": names(where, default_backend)}
    match own:
        case ArtifactPath():
            rows = tx.execute(_NAMED, mine)
        case RunPath():
            rows = tx.execute(_RUN, mine | {"run_id": own.run_id})
        case AttemptPath():
            run_id = ids.run_id_of(own.task_run_id)
            task_run = mine | {"run_id": run_id, "id": own.task_run_id}
            if tx.execute(_TASK_RUN, task_run).first() is not None:
                return True
            rows = tx.execute(_REUSED, mine | {"id": own.task_run_id})
        case UploadPath():
            rows = tx.execute(_UPLOAD, mine | {"id": own.upload_id})
        case None:
            return False
    return rows.first() is not None


def names(where: ObjectRef, default_backend: str) -> list[str]:
    """The texts by which a row may name an object: older versions named objects of the default backend by
    their paths alone.
    """
    return [str(where), where.path] if where.backend == default_backend else [str(where)]
