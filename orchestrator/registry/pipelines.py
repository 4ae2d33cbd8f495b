"""Stores and reads pipelines in numbered versions that never change; a run keeps its version."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pipeweave.errors import InvalidSpec, NotFound, PipelineUnsigned
from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.registry.required_labels import errors_of_labels
from pipeweave.orchestrator.registry.secret_routes import errors_of_secrets
from pipeweave.orchestrator.registry.tenants import ensure_tenant, takes_only_signed
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.spec import (
    HOOK_NAMES,
    ChildPipeline,
    GraphError,
    ParameterError,
    Parameters,
    PipelineSpec,
    UnknownTask,
    child_errors,
    child_references,
    named_in,
    output_template,
    parameter_errors,
    parse_spec,
    unknown_pipelines,
    unknown_tasks,
)


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """The result of storing a pipeline. `is_new` is False when the latest version has the same spec."""

    pipeline_id: str
    version: int
    spec_hash: str
    is_new: bool


@dataclass(frozen=True)
class StoredPipeline:
    """One version of a pipeline."""

    id: str
    version: int
    spec: PipelineSpec
    spec_hash: str
    source: str
    created_at: datetime

    @functools.cached_property
    def plan(self) -> Plan:
        """The compiled plan. Versions never change, so it is compiled once."""
        return compile_plan(self.spec)

    @functools.cached_property
    def output_template(self) -> Any:
        """What the output of a run is made of; see `spec/output.py`."""
        return output_template(self.spec, [self.plan[each].id for each in self.plan.ends])

    def of_body(self, body: str | None) -> StoredPipeline:
        """What runs of a body of this version run, as if it were a pipeline; this itself for None.

        Args:
            body: its place in the version, such as `review.loop`.
        """
        return self if body is None else self._bodies[body]

    @functools.cached_property
    def _bodies(self) -> Mapping[str, StoredPipeline]:
        return {place: replace(self, spec=spec) for place, spec in self.spec.bodies.items()}

    @functools.cached_property
    def named_in_output(self) -> tuple[Mapping[str, int], int]:
        """How often the output of a run refers to each step, and to the run's input."""
        return named_in(self.output_template)


# By tenant, pipeline and version. A spec of 5,000 steps takes about 5 MB, an ordinary one 10 KB.
VERSIONS = CacheSpec[tuple[str, str, int], StoredPipeline]("pipeline versions", 256)


_INSERT = """
INSERT INTO pipelines (tenant_id, id, description, latest_version, created_at, updated_at)
VALUES (:tenant, :id, :description, 1, :now, :now) ON CONFLICT DO NOTHING
"""

_LOCK = "SELECT latest_version FROM pipelines WHERE tenant_id = :tenant AND id = :id FOR UPDATE"

_HASH = """
SELECT spec_hash FROM pipeline_versions WHERE tenant_id = :tenant AND pipeline_id = :id AND version = :version
"""

_INSERT_VERSION = """
INSERT INTO pipeline_versions
    (tenant_id, pipeline_id, version, spec, input_schema, output, hooks, spec_hash, source, created_at)
VALUES (:tenant, :id, :version, CAST(:spec AS jsonb), CAST(:input_schema AS jsonb), CAST(:output AS jsonb),
    CAST(:hooks AS jsonb), :spec_hash, :source, :now)
"""

_UPDATE = """
UPDATE pipelines SET latest_version = :version, description = :description, updated_at = :now
WHERE tenant_id = :tenant AND id = :id
"""


def store(
    tx: Transaction,
    tenant: str,
    spec: PipelineSpec,
    *,
    source: str,
    beside: Iterable[PipelineSpec] = (),
    is_signed: bool = False,
) -> StoredVersion:
    """Store a pipeline as its next version, unless its latest version has the same spec. The version has its
    steps in the order of their numbers.

    Args:
        source: `decorator`, `document`, `derived` or `api`.
        beside: pipelines that the same transaction stores: it may run them as they will be.
        is_signed: whether a signed bundle brings it.

    Raises:
        InvalidSpec: with every error found, each with its steps; nothing is stored.
        PipelineUnsigned: it would be a new version, and the tenant takes only those of signed bundles.
    """
    _check(tx, tenant, spec, beside)
    ensure_tenant(tx, tenant)
    hashes = _hashes(spec)
    parameters = {
        "tenant": tenant,
        "id": spec.id,
        "description": spec.description,
        **_stored(spec.numbered),
        "spec_hash": spec.spec_hash,
        "source": source,
        "now": tx.now,
    }
    if not is_signed and takes_only_signed(tx, tenant):
        return _stored_already(tx, {**parameters, "hashes": list(hashes)})
    # Both the INSERT and the lock wait for a transaction that stores the same pipeline. The lock is its own
    # statement, so that the next statement sees what that transaction committed.
    if tx.execute(_INSERT, parameters).rowcount:
        tx.execute(_INSERT_VERSION, {**parameters, "version": 1})
        return StoredVersion(spec.id, 1, spec.spec_hash, True)
    latest = tx.execute(_LOCK, parameters).scalar_one()
    latest_hash = tx.execute(_HASH, {**parameters, "version": latest}).scalar_one()
    if latest_hash in hashes:
        return StoredVersion(spec.id, latest, latest_hash, False)
    tx.execute(_INSERT_VERSION, {**parameters, "version": latest + 1})
    tx.execute(_UPDATE, {**parameters, "version": latest + 1})
    return StoredVersion(spec.id, latest + 1, spec.spec_hash, True)


def _hashes(spec: PipelineSpec) -> tuple[str, ...]:
    """The hashes of versions that are this spec: an earlier build stored steps in the order of the document,
    and numbered them so. Such a version stays the latest, with its numbers, until the pipeline changes.
    """
    return (spec.spec_hash, spec.written_hash)


def _stored_already(tx: Transaction, parameters: Mapping[str, Any]) -> StoredVersion:
    """The version of an unsigned pipeline that is stored: a worker that starts again changes nothing."""
    latest = tx.execute(_IS_LATEST, parameters).one_or_none()
    if latest is None:
        raise PipelineUnsigned(
            f"pipeline {parameters['id']!r} is not of a signed bundle, and its tenant takes no others",
            hint="install it in a bundle: `pipeweave bundle build`, `sign`, `install`",
            pipelineId=parameters["id"],
        )
    return StoredVersion(parameters["id"], latest.latest_version, latest.spec_hash, False)


def _stored(spec: PipelineSpec) -> dict[str, str | None]:
    """A spec as its columns. Members that the previous version does not know have columns of their own: its
    processes, which run beside this one during a deploy, refuse a spec with unknown members.
    """
    document = spec.version_json()
    hooks = {name: document.pop(name) for name in HOOK_NAMES if name in document}
    parts = {
        "input_schema": document.pop("inputSchema", None),
        "output": document.pop("output", None),
        "hooks": hooks or None,
    }
    shown: dict[str, str | None] = {
        name: None if part is None else to_json(part) for name, part in parts.items()
    }
    return {"spec": to_json(document), **shown}


def _parsed(row: Any) -> PipelineSpec:
    """The spec of a row; members that are NULL are left out, as in all rows of earlier versions."""
    parts = {"inputSchema": row.input_schema, "output": row.output}
    members = {name: part for name, part in parts.items() if part is not None}
    return parse_spec({**row.spec, **members, **(row.hooks or {})}, is_stored=True)


_IS_LATEST = """
SELECT p.latest_version, v.spec_hash FROM pipelines AS p JOIN pipeline_versions AS v
    ON v.tenant_id = p.tenant_id AND v.pipeline_id = p.id AND v.version = p.latest_version
WHERE p.tenant_id = :tenant AND p.id = :id AND v.spec_hash = ANY(CAST(:hashes AS text[]))
"""


def _check(tx: Transaction, tenant: str, spec: PipelineSpec, beside: Iterable[PipelineSpec]) -> None:
    """Refuse a spec that `parse_spec` would refuse, or that does not fit the registered tasks, or the
    pipelines that it runs.

    Params that do not fit are no mistake of the version that is stored already: a worker that only starts
    again must not be kept from it by a task that another service has changed.
    """
    parse_spec(spec.to_json())
    known = task_parameters(tx, tenant, spec)
    faults = unknown_steps(tx, tenant, spec, known)
    if faults:
        raise InvalidSpec(
            f"pipeline {spec.id!r}: {faults[0].message}",
            errors=[each.as_field_error() for each in faults],
            hint="start a worker that has the task, or correct its name",
            graphErrors=[each.as_graph_error().to_json() for each in faults],
        )
    wrong = param_errors(spec, known, children_of(tx, tenant, spec, beside))
    wrong += errors_of_secrets(tx, tenant, spec) + errors_of_labels(tx, tenant, spec)
    latest = {"tenant": tenant, "id": spec.id, "hashes": list(_hashes(spec))}
    if wrong and tx.execute(_IS_LATEST, latest).first() is None:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InvalidSpec(
            f"pipeline {spec.id!r}: {wrong[0].field}: {wrong[0].message}{more}",
            errors=[each.as_field_error() for each in wrong],
            graphErrors=[each.as_graph_error().to_json() for each in wrong],
        )


def param_errors(
    spec: PipelineSpec,
    tasks: Mapping[str, Parameters | None],
    children: Mapping[ChildPipeline, PipelineSpec | None],
) -> list[ParameterError]:
    """The params that do not fit the tasks and the pipelines that a pipeline runs.

    Args:
        tasks: of `task_parameters`.
        children: of `children_of`.
    """
    return parameter_errors(spec, tasks) + child_errors(spec, children)


CURRENT = "coalesce(p.promoted_version, p.latest_version)"
"""SQL: the current version of a pipeline `p`: the promoted one, else the newest."""

_VERSIONS_OF = f"""
SELECT p.id, p.latest_version, {CURRENT} AS current FROM pipelines AS p
WHERE p.tenant_id = :tenant AND p.id = ANY(CAST(:ids AS text[]))
"""


def children_of(
    tx: Transaction, tenant: str, spec: PipelineSpec, beside: Iterable[PipelineSpec] = ()
) -> dict[ChildPipeline, PipelineSpec | None]:
    """Of the pipelines that a pipeline runs, those that are stored, with the specs that this build reads.
    Costs nothing where it runs none.

    Args:
        beside: pipelines that are stored together with it.
    """
    wanted = {each.pipeline for each in child_references(spec)}
    as_they_will_be = {ChildPipeline(each.id): each for each in (*beside, spec)}
    known: dict[ChildPipeline, PipelineSpec | None] = {
        each: as_they_will_be[each] for each in wanted if each in as_they_will_be
    }
    others = wanted - known.keys()
    if not others:
        return known
    named = {"tenant": tenant, "ids": sorted({each.id for each in others})}
    stored = {row.id: row for row in tx.execute(_VERSIONS_OF, named)}
    for each in others:
        row = stored.get(each.id)
        if row is None or (version := each.version or row.current) > row.latest_version:
            continue
        known[each] = _spec_if_readable(tx, tenant, each.id, version)
    return known


def _spec_if_readable(tx: Transaction, tenant: str, pipeline_id: str, version: int) -> PipelineSpec | None:
    """The spec of a version; None of one that only a later build reads: what runs it is not compared with it,
    so that the workers of this build still start.
    """
    try:
        return get(tx, tenant, pipeline_id, version).spec
    except InvalidSpec:
        return None


def unknown_children(
    tx: Transaction, tenant: str, spec: PipelineSpec, known: Collection[ChildPipeline]
) -> list[GraphError]:
    """A warning for each place of a pipeline that runs one that is not stored, at most 100."""
    if all(each.pipeline in known for each in child_references(spec)):
        return []
    return unknown_pipelines(spec, known, unknown_names.names(tx, tenant, "pipeline"))


_KNOWN = """
SELECT id, parameters FROM tasks
WHERE tenant_id = :tenant AND id = ANY(CAST(:ids AS text[])) AND orphaned_at IS NULL
"""


def task_parameters(tx: Transaction, tenant: str, spec: PipelineSpec) -> dict[str, Parameters | None]:
    """The parameters of the registered tasks that a pipeline names, by id; None where they are not known."""
    wanted = sorted(spec.tasks)
    return {row.id: row.parameters for row in tx.execute(_KNOWN, {"tenant": tenant, "ids": wanted})}


def unknown_steps(
    tx: Transaction, tenant: str, spec: PipelineSpec, known: Collection[str]
) -> list[UnknownTask]:
    """The steps whose task no service of the tenant has registered, at most 100."""
    return unknown_tasks(spec, known, names_of_tasks(tx, tenant, spec, known))


def names_of_tasks(
    tx: Transaction, tenant: str, spec: PipelineSpec, known: Collection[str]
) -> Collection[str]:
    """The tasks of a tenant, for suggestions; read only if one of the pipeline's tasks is not known."""
    is_complete = all(not step.has_task or step.task in known for _, step in spec.all_steps)
    return known if is_complete else unknown_names.names(tx, tenant, "task")


_CURRENT_VERSION = f"SELECT {CURRENT} FROM pipelines AS p WHERE p.tenant_id = :tenant AND p.id = :id"
_LATEST_VERSION = "SELECT latest_version FROM pipelines WHERE tenant_id = :tenant AND id = :id"

_GET = """
SELECT pipeline_id, version, spec, input_schema, output, hooks, spec_hash, source, created_at
FROM pipeline_versions
WHERE tenant_id = :tenant AND pipeline_id = :id AND version = :version
"""


def get(tx: Transaction, tenant: str, pipeline_id: str, version: int | None = None) -> StoredPipeline:
    """One version of a pipeline, the current one by default, whose number is always read anew.

    Raises:
        NotFound: the tenant has no such pipeline or version.
    """
    parameters: dict[str, Any] = {"tenant": tenant, "id": pipeline_id, "version": version}
    if version is None:
        parameters["version"] = tx.execute(_CURRENT_VERSION, parameters).scalar_one_or_none()
    key = tenant, pipeline_id, parameters["version"]
    if (pipeline := tx.cache(VERSIONS).get(key)) is not None:
        return pipeline
    row = tx.execute(_GET, parameters).one_or_none()
    if row is None:
        raise not_found(tx, tenant, pipeline_id, version)
    stored = StoredPipeline(
        row.pipeline_id, row.version, _parsed(row), row.spec_hash, row.source, row.created_at
    )
    # This transaction may have written the row itself, and may still be rolled back.
    tx.cache_after_commit(VERSIONS, key, stored)
    return stored


def of_run(tx: Transaction, run: Any) -> StoredPipeline:
    """What a run runs: a version, or a body of it.

    Args:
        run: its row, with tenant_id, pipeline_id, pipeline_version and body.

    Raises:
        NotFound: the tenant has no such pipeline or version.
    """
    stored = get(tx, run.tenant_id, run.pipeline_id, run.pipeline_version)
    # A row of a month that was detached before there were bodies has no such column.
    return stored.of_body(getattr(run, "body", None))


def not_found(tx: Transaction, tenant: str, pipeline_id: str, version: int | None) -> NotFound:
    """The error for a pipeline, or a version of one, that is not stored."""
    latest = tx.execute(_LATEST_VERSION, {"tenant": tenant, "id": pipeline_id}).scalar_one_or_none()
    if latest is None or version is None:
        return unknown_names.not_found(tx, tenant, "pipeline", pipeline_id, pipelineId=pipeline_id)
    return NotFound(
        f"pipeline {pipeline_id!r} has no version {version}",
        hint=f"its newest version is {latest}",
        pipelineId=pipeline_id,
    )


# Higher than every possible version.
NO_VERSION = 2**31 - 1
