"""Decides which version of a pipeline triggers take: promotes one, goes back, or follows the newest again.

A version is current until another is promoted, also when code or a document brings newer ones. Without a
promotion, the newest version is the current one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeweave.errors import Conflict
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.pipelines import CURRENT
from pipeweave.orchestrator.store.database import Transaction

_COLUMNS = f"""p.id AS pipeline_id, {CURRENT} AS version, p.latest_version, p.promoted_version,
    p.previous_version, p.promoted_at, p.promoted_by"""

_READ = f"SELECT {_COLUMNS} FROM pipelines AS p WHERE p.tenant_id = :tenant AND p.id = :id"

# Who goes on with the version that is current already changes what later versions mean, and has nothing to go
# back to.
_PROMOTE = f"""
UPDATE pipelines AS p SET promoted_version = CAST(:version AS integer), promoted_at = :now, promoted_by = :by,
    previous_version = CASE WHEN {CURRENT} = coalesce(:version, p.latest_version) THEN p.previous_version
        ELSE {CURRENT} END
WHERE p.tenant_id = :tenant AND p.id = :id AND p.promoted_version IS DISTINCT FROM CAST(:version AS integer)
    AND coalesce(:version, 1) <= p.latest_version
    AND (CAST(:expected AS integer) IS NULL OR {CURRENT} = :expected)
RETURNING {_COLUMNS}
"""


def read(tx: Transaction, tenant: str, pipeline_id: str) -> Any:
    """The row of a pipeline: version (the current one), latest_version, promoted_version, previous_version,
    promoted_at and promoted_by.

    Raises:
        NotFound: the tenant has no such pipeline.
    """
    row = tx.execute(_READ, {"tenant": tenant, "id": pipeline_id}).one_or_none()
    if row is None:
        raise pipelines.not_found(tx, tenant, pipeline_id, None)
    return row


def promote(
    tx: Transaction,
    tenant: str,
    pipeline_id: str,
    version: int | None,
    *,
    expected: int | None = None,
    by: str | None = None,
    now: datetime | None = None,
) -> Any:
    """Make a version the current one, until another is promoted; see `read` for the row that is returned.
    Nothing changes if it was promoted already.

    Args:
        version: None follows the newest one from now on.
        expected: the version that the caller takes for the current one; None: whichever it is.
        by: who does it.

    Raises:
        NotFound: the tenant has no such pipeline or version.
        Conflict: another version than the expected one is current, or a task of this one is not registered.
    """
    _require_tasks(tx, tenant, pipeline_id, version)
    parameters = {"tenant": tenant, "id": pipeline_id, "version": version, "expected": expected, "by": by}
    row = tx.execute(_PROMOTE, {**parameters, "now": now or tx.now}).one_or_none()
    if row is not None:
        return row
    row = read(tx, tenant, pipeline_id)
    _require_expected(row, expected)
    return row


def roll_back(
    tx: Transaction,
    tenant: str,
    pipeline_id: str,
    *,
    expected: int | None = None,
    by: str | None = None,
    now: datetime | None = None,
) -> Any:
    """Promote the version that was current before, else the one before the newest; see `promote`.

    Args:
        expected: the version to leave; None: whichever is current.

    Raises:
        NotFound: the tenant has no such pipeline.
        Conflict: there is no version to go back to; or as `promote`.
    """
    row = read(tx, tenant, pipeline_id)
    _require_expected(row, expected)
    version = row.previous_version or row.version - 1
    if version < 1:
        raise Conflict(
            f"pipeline {pipeline_id!r} has no version before {row.version}",
            hint="store the pipeline as it should be; that makes a new version",
            pipelineId=pipeline_id,
        )
    # What was read may be over: of two who leave the same version, one is refused.
    return promote(tx, tenant, pipeline_id, version, expected=row.version, by=by, now=now)


def _require_expected(row: Any, expected: int | None) -> None:
    if expected is not None and row.version != expected:
        raise Conflict(
            f"version {row.version} of pipeline {row.pipeline_id!r} is current, not {expected}",
            hint="somebody else has changed it: look at its versions again",
            pipelineId=row.pipeline_id,
            currentVersion=row.version,
        )


def _require_tasks(tx: Transaction, tenant: str, pipeline_id: str, version: int | None) -> None:
    """Refuse a version whose runs would be refused."""
    if version is None:
        return
    spec = pipelines.get(tx, tenant, pipeline_id, version).spec
    unknown = pipelines.unknown_steps(tx, tenant, spec, pipelines.task_parameters(tx, tenant, spec))
    if unknown:
        raise Conflict(
            f"version {version} of pipeline {pipeline_id!r}: {unknown[0].message}",
            errors=[each.as_field_error() for each in unknown],
            hint="start a worker that has the task first",
            pipelineId=pipeline_id,
        )
