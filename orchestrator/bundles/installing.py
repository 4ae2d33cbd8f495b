"""Installs bundles: the row of a version, its tasks and its pipelines, in one transaction.

The file is in storage before (`Values.keep_bytes`): a file without a row is found by the sweep, a row without
a file by nobody. docs/decisions/0085 says why versions only grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeweave.bundles.bundle import Bundle, verified_by
from pipeweave.bundles.manifest import BundleManifest
from pipeweave.errors import (
    BundleDowngrade,
    BundleVersionTaken,
    FieldError,
    InvalidBundle,
    InvalidTask,
    LimitExceeded,
)
from pipeweave.orchestrator.bundles import bundle_keys
from pipeweave.orchestrator.bundles.parking import SERVICE
from pipeweave.orchestrator.registry import pipelines, registration
from pipeweave.orchestrator.registry.registration import IDEMPOTENCY_TTL_S, Registration
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.starts.schedules import declaring
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.sandbox import mistakes_in
from pipeweave.spec import PipelineSpec

MOST_BUNDLES = 500
"""The bundles of one tenant, each with all its versions."""


@dataclass(frozen=True, slots=True)
class NewBundle:
    """A bundle that is to be installed: read and checked, and its file is stored.

    Args:
        size: of the file (bytes).
        storage_path: the reference of the stored file.
        registration: its tasks.
        specs: its pipelines.
        by: who installs it.
    """

    bundle: Bundle
    size: int
    storage_path: str
    registration: Registration
    specs: Sequence[PipelineSpec]
    by: str


@dataclass(frozen=True, slots=True)
class Installed:
    """What an installation did. `is_new` is False when this version with these signatures was installed."""

    id: str
    version: str
    is_new: bool
    key_ids: tuple[str, ...]
    replaced: str | None
    pipelines: tuple[pipelines.StoredVersion, ...] = field(default=())


def registration_of(manifest: BundleManifest, *, idempotency_ttl: int = IDEMPOTENCY_TTL_S) -> Registration:
    """The tasks of a bundle as a registration of the service of bundles.

    Raises:
        InvalidBundle: an option of a task is wrong, or cannot be kept in a bundle.
    """
    shown = {
        "serviceId": SERVICE,
        "version": f"{manifest.id} {manifest.version}"[: registration.MAX_VERSION],
        "tasks": [each.registration for each in manifest.tasks],
    }
    try:
        parsed = registration.parse(shown, kind="python", idempotency_ttl=idempotency_ttl)
    except InvalidTask as error:
        raise InvalidBundle(error.detail, errors=error.errors) from None
    faults = [
        FieldError(
            f"tasks[{at}].registration.queue", "a task of a bundle has no queue of its own", "unsupported"
        )
        for at, each in enumerate(parsed.tasks)
        if each.queue is not None
    ]
    for at, task in enumerate(manifest.tasks):
        faults += mistakes_in(task.sandbox or {}, f"tasks[{at}].sandbox.")
    if faults:
        raise InvalidBundle(f"{faults[0].field}: {faults[0].message}", errors=faults)
    return parsed


def install(tx: Transaction, tenant: str, new: NewBundle, *, allow_downgrade: bool = False) -> Installed:
    """Make a version of a bundle the one that counts.

    The version before goes on with the attempts that it runs. Its row stays, and says what was installed.

    Args:
        allow_downgrade: whether an older version than the newest may follow.

    Raises:
        BundleSignatureInvalid, BundleKeyUnknown, BundleKeyRevoked: no key that the tenant trusts signed it.
        BundleVersionTaken: the version was installed with another content, or is revoked.
        BundleDowngrade: a newer version was installed before.
        InvalidBundle: a task is one of another bundle.
        TaskOwnedElsewhere: a task is one of another service.
        InvalidSpec: a pipeline does not fit its tasks.
        LimitExceeded: the tenant has as many bundles as it may have.
    """
    manifest = new.bundle.manifest
    service_registration.begin(tx, tenant)
    declaring.hold(tx, tenant, {each.id for each in new.specs})
    trusted = verified_by(new.bundle, bundle_keys.keys_of(tx, tenant))
    same = _check_version(tx, tenant, new, allow_downgrade=allow_downgrade)
    _check_tasks(tx, tenant, manifest)
    is_new = same is None or same.state != "installed" or list(same.key_ids) != new.bundle.key_ids
    replaced = _write(tx, tenant, new) if is_new else None
    service_registration.register(tx, tenant, new.registration, by_worker=True)
    stored = tuple(_store_pipeline(tx, tenant, manifest, spec, new.specs) for spec in new.specs)
    return Installed(manifest.id, manifest.version, is_new, tuple(trusted), replaced, stored)


_VERSIONS = """
SELECT version, version_order, state, content_hash, key_ids, revoke_reason FROM bundles
WHERE tenant_id = :tenant AND id = :id ORDER BY version_order DESC
"""
_NUMBER = "SELECT count(DISTINCT id) FROM bundles WHERE tenant_id = :tenant"


def _check_version(tx: Transaction, tenant: str, new: NewBundle, *, allow_downgrade: bool) -> Any:
    """The row of this version, if there is one."""
    manifest = new.bundle.manifest
    rows = tx.execute(_VERSIONS, {"tenant": tenant, "id": manifest.id}).all()
    same = next((each for each in rows if tuple(each.version_order) == manifest.order), None)
    if same is not None:
        _check_same(manifest, new.bundle.content_hash, same)
    if not rows and tx.execute(_NUMBER, {"tenant": tenant}).scalar_one() >= MOST_BUNDLES:
        raise LimitExceeded(f"a tenant has at most {MOST_BUNDLES} bundles")
    if rows and tuple(rows[0].version_order) > manifest.order and not allow_downgrade:
        raise BundleDowngrade(
            f"bundle {manifest.id} was installed in version {rows[0].version}, which is newer than "
            f"{manifest.version}",
            hint="if you mean to go back, install it with --allow-downgrade",
            newestVersion=rows[0].version,
        )
    return same


def _check_same(manifest: BundleManifest, content_hash: str, same: Any) -> None:
    name = f"bundle {manifest.id} {same.version}"
    if same.state == "revoked":
        because = f": {same.revoke_reason}" if same.revoke_reason else ""
        raise BundleVersionTaken(f"{name} is revoked{because}", hint="install a newer version")
    if same.content_hash != content_hash:
        raise BundleVersionTaken(
            f"{name} was installed with another content", hint="a version never changes: build a newer one"
        )


_OTHERS = """
SELECT id, version, task_ids FROM bundles
WHERE tenant_id = :tenant AND state = 'installed' AND id <> :id AND task_ids && CAST(:tasks AS text[]) LIMIT 1
"""


def _check_tasks(tx: Transaction, tenant: str, manifest: BundleManifest) -> None:
    mine = {"tenant": tenant, "id": manifest.id, "tasks": manifest.task_ids}
    other = tx.execute(_OTHERS, mine).one_or_none()
    if other is not None:
        at = next(at for at, each in enumerate(manifest.task_ids) if each in other.task_ids)
        problem = f"{manifest.task_ids[at]!r} is a task of bundle {other.id} {other.version}"
        raise InvalidBundle(problem, errors=[FieldError(f"tasks[{at}].registration.id", problem, "owned")])


_SUPERSEDE = """
UPDATE bundles SET state = 'superseded'
WHERE tenant_id = :tenant AND id = :id AND state = 'installed' AND version_order <> CAST(:order AS integer[])
RETURNING version
"""
_STORE = """
INSERT INTO bundles (tenant_id, id, version, version_order, state, content_hash, size, storage_path, key_ids,
    task_ids, pipeline_ids, python, files, installed_at, installed_by)
VALUES (:tenant, :id, :version, CAST(:order AS integer[]), 'installed', :content_hash, :size, :path,
    CAST(:key_ids AS text[]), CAST(:tasks AS text[]), CAST(:pipelines AS text[]), :python, :files, :now, :by)
ON CONFLICT (tenant_id, id, version_order) DO UPDATE SET state = 'installed', size = excluded.size,
    storage_path = excluded.storage_path, key_ids = excluded.key_ids, installed_at = excluded.installed_at,
    installed_by = excluded.installed_by
"""


def _write(tx: Transaction, tenant: str, new: NewBundle) -> str | None:
    """Write the row of the version; the version that counted before."""
    manifest = new.bundle.manifest
    row = {
        "tenant": tenant,
        "id": manifest.id,
        "version": manifest.version,
        "order": list(manifest.order),
        "content_hash": new.bundle.content_hash,
        "size": new.size,
        "path": new.storage_path,
        "key_ids": new.bundle.key_ids,
        "tasks": manifest.task_ids,
        "pipelines": [each.id for each in new.specs],
        "python": manifest.python,
        "files": len(manifest.files),
        "now": tx.now,
        "by": new.by[:300],
    }
    replaced = tx.execute(_SUPERSEDE, row).scalar_one_or_none()
    tx.execute(_STORE, row)
    return replaced


_VOUCH = """
INSERT INTO bundle_pipelines (tenant_id, pipeline_id, version, bundle_id, bundle_version)
SELECT :tenant, :pipeline, :version, b.id, b.version FROM bundles AS b
WHERE b.tenant_id = :tenant AND b.id = :bundle AND b.version_order = CAST(:order AS integer[])
ON CONFLICT DO NOTHING
"""


def _store_pipeline(
    tx: Transaction,
    tenant: str,
    manifest: BundleManifest,
    spec: PipelineSpec,
    beside: Sequence[PipelineSpec],
) -> pipelines.StoredVersion:
    stored = pipelines.store(tx, tenant, spec, source="document", beside=beside, is_signed=True)
    declaring.declare(tx, tenant, spec, source="document")
    named = {"tenant": tenant, "pipeline": spec.id, "version": stored.version, "bundle": manifest.id}
    tx.execute(_VOUCH, {**named, "order": list(manifest.order)})
    return stored
