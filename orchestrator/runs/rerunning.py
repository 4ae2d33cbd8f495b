"""Reruns a run that ended: a new run, linked to it, from the beginning or from a step.

A rerun from a step takes over the results of the steps that need not run again (domain/reuse.py decides,
state/reusing.py copies); every other step runs as in any run. The run before is only read. Its status and
its steps are read without a lock, as in a trigger; the statements that take results over check them again.

The input, and the params of the step that a rerun begins at, can be others (edited_params.py). What that
makes of the new run is in its row (domain/run_edits.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import Conflict, FieldError, InvalidInput, NotFound, Unavailable
from pipeweave.labels import Labels
from pipeweave.orchestrator.domain import reuse
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_edits import NO_EDITS, Params, RunEdits
from pipeweave.orchestrator.domain.run_key import run_key
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.triggered_by import RERUN, TriggeredBy
from pipeweave.orchestrator.registry import pipelines, snapshot
from pipeweave.orchestrator.registry.pipelines import StoredPipeline
from pipeweave.orchestrator.registry.snapshot import CatalogSnapshot, SnapshotOutdated
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.runs import creation, edited_params, triggering
from pipeweave.orchestrator.runs.new_run import NewRun
from pipeweave.orchestrator.state import reusing
from pipeweave.orchestrator.state.reusing import Reused
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.spec import PipelineSpec
from pipeweave.suggestions import did_you_mean

# Versions by name; any other version is its number.
SAME, LATEST = "same", "latest"

# The most steps that one message names.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Edited:
    """An input that replaces that of the run before."""

    value: Any


@dataclass(frozen=True, slots=True)
class EditedParams:
    """Params that replace those of the step that a rerun begins at; None for those of its version."""

    value: Params | None


@dataclass(frozen=True, slots=True)
class Rerun:
    """A request for a rerun.

    Args:
        run_id: the run that ended.
        from_step: the step to begin at; None for the beginning.
        edited: another input; None for that of the run.
        version: SAME, LATEST or the number of a version.
        run_token: a second rerun with the same token, run, step, input, params and version is the first one.
        by: who asks for it.
        traceparent: the trace context of the request; None without one.
        params: other params of the step to begin at; None for those that it had in the run.
    """

    run_id: UUID
    from_step: str | None = None
    edited: Edited | None = None
    version: str | int = SAME
    run_token: str | None = None
    by: str | None = None
    traceparent: str | None = None
    params: EditedParams | None = None


@dataclass(frozen=True, slots=True)
class CreatedRerun:
    """An accepted rerun, or the earlier one with the same token.

    Args:
        reused: the ids of the steps that it takes over.
        edits: what was edited for it.
    """

    id: UUID
    pipeline_id: str
    version: int
    status: str
    reused: tuple[str, ...]
    created: bool
    edits: RunEdits = NO_EDITS


# Called with the version's spec, its tasks and the input before anything is written; may raise to refuse it.
Check = Callable[[PipelineSpec, Mapping[str, TaskRow], Any], None]


def rerun(
    tx: Transaction, values: Values, tenant: str, request: Rerun, *, check: Check | None = None
) -> CreatedRerun:
    """Write a new run that repeats one that ended, and send its first steps.

    Args:
        tx: may be of `Database.statements`: storage is used before the statements are held together.
        check: looks at an input that was edited, or goes to another version.

    Raises:
        NotFound: the tenant has no such run, or its pipeline no such version.
        Conflict: the run is open; a task is no longer registered; the step would be skipped again; the
            version has changed reused steps.
        InvalidInput: the version has no such step, or the step does not take these params.
        Unavailable: storage cannot be reached, or maintenance is on. Nothing was written.
    """
    old = _old_run(tx, tenant, request.run_id)
    new_id = tx.new_id()
    for _ in range(triggering.MAX_SNAPSHOTS):
        catalog = _catalog(tx, tenant, old, request.version)
        new = _new_run(tx, values, old, catalog, request, new_id, check)
        try:
            return _write(tx, old, request, new, catalog)
        except SnapshotOutdated:
            continue
    raise Unavailable(
        f"pipeline {old.pipeline_id!r} or its tasks changed {triggering.MAX_SNAPSHOTS} times meanwhile",
        hint="try again; some process keeps registering its tasks or storing new versions of it",
    )


# --- the run before ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OldRun:
    """The run before; its input is the JSON text of the row, or a path."""

    id: UUID
    tenant: str
    pipeline_id: str
    version: int
    status: RunStatus
    failure_mode: str
    priority: int | None
    queue: str | None
    requires: Labels | None
    metadata: Mapping[str, Any] | None
    kept: KeptValue
    edits: RunEdits

    @property
    def shown(self) -> str:
        return ids.show(ids.RUN, self.id)


_OLD = """
SELECT r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.status, r.failure_mode, r.priority,
    r.queue_name, r.requires, r.metadata, r.body, r.root_run_id, r.edits,
    CAST(r.input AS text) AS input, r.input_path, r.input_size, r.inputs_hash,
    ARRAY(SELECT c.upload_id FROM upload_claims AS c WHERE c.run_id = r.id ORDER BY c.upload_id) AS uploads
FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""


def _old_run(tx: Transaction, tenant: str, run_id: UUID) -> _OldRun:
    row: Any = tx.execute(_OLD, {"id": run_id, "tenant": tenant}).one_or_none()
    if row is None:
        raise NotFound(f"run {ids.show(ids.RUN, run_id)} not found", runId=ids.show(ids.RUN, run_id))
    if row.body is not None:
        root = ids.show(ids.RUN, row.root_run_id)
        shown = ids.show(ids.RUN, run_id)
        raise Conflict(
            f"run {shown} runs the body {row.body!r} of a step, so it is not repeated alone",
            hint=f"repeat run {root}, from that step",
            runId=root,
        )
    inline = None if row.input_path is not None else row.input or "null"
    return _OldRun(
        row.id,
        row.tenant_id,
        row.pipeline_id,
        row.pipeline_version,
        RunStatus(row.status),
        row.failure_mode,
        row.priority,
        row.queue_name,
        row.requires,
        row.metadata,
        KeptValue(inline, row.input_path, row.input_size, row.inputs_hash, tuple(row.uploads)),
        RunEdits.of_json(row.edits),
    )


def _require_ended(old: _OldRun) -> None:
    if not old.status.is_final:
        raise Conflict(
            f"run {old.shown} is {old.status}, so it cannot be run again",
            hint="wait until it has ended, or cancel it first",
            runId=old.shown,
        )


# --- the new run ------------------------------------------------------------------------------------------


def _catalog(tx: Transaction, tenant: str, old: _OldRun, version: str | int) -> CatalogSnapshot:
    number = {LATEST: None, SAME: old.version}.get(str(version), version)
    return snapshot.take_snapshot_at(tx, tenant, old.pipeline_id, None if number is None else int(number))


def _new_run(
    tx: Transaction,
    values: Values,
    old: _OldRun,
    catalog: CatalogSnapshot,
    request: Rerun,
    new_id: UUID,
    check: Check | None,
) -> NewRun:
    """The run to write, without the results that it takes over. A large input is stored here."""
    stored = catalog.pipeline
    _require_step(stored, request.from_step)
    tasks = triggering.runnable(catalog.tasks, stored.spec.tasks)
    value, kept = _input(values, old, stored, request)
    edits = _edits(tx, old, stored, tasks, request)
    is_new_to_it = request.edited is not None or stored.version != old.version
    if check is not None and is_new_to_it:
        check(edits.spec(stored.spec), tasks, value)
    header = RunHeader(
        new_id,
        old.tenant,
        stored.id,
        stored.version,
        old.failure_mode,
        old.priority,
        None if kept.inline is None else orjson.loads(kept.inline),
        kept.path,
        edits.plan(stored.plan),
        TriggeredBy(RERUN, old.shown, request.by, request.traceparent),
        request.from_step,
        queue=old.queue,
        requires=old.requires,
    )
    spec = stored.spec
    return NewRun(
        header,
        kept,
        tasks,
        old.metadata,
        request.run_token,
        spec.timeout_ms,
        spec.idle_timeout_ms,
        value=value,
        rerun_of=old.id,
        edits=edits,
        key=run_key(spec, value),
    )


def _edits(
    tx: Transaction,
    old: _OldRun,
    stored: StoredPipeline,
    tasks: Mapping[str, TaskRow],
    request: Rerun,
) -> RunEdits:
    """The params that are not those of the version: those of the run before, and what the request edits.

    Another version keeps those of the steps that it has not changed.
    """
    kept = old.edits.params_of(stored.plan.ordinals)
    if kept.params and stored.version != old.version:
        before = pipelines.get(tx, old.tenant, old.pipeline_id, old.version).plan
        kept = kept.params_of(reuse.same_steps(before, stored.plan))
    if request.params is None:
        return kept
    step = stored.spec.by_id[edited_params.require_begin(request.from_step)]
    # Those of the version are no edit.
    params = None if request.params.value == step.params else request.params.value
    edited = kept.with_params(step.id, params)
    if params is not None:
        edited_params.check(tx, old.tenant, stored, edited.step(step), tasks)
    return edited


def _require_step(stored: StoredPipeline, step_id: str | None) -> None:
    known = stored.plan.ordinals
    if step_id is not None and step_id not in known:
        raise InvalidInput(
            f"version {stored.version} of pipeline {stored.id!r} has no step {step_id[:200]!r}",
            errors=[FieldError("fromStep", "is not a step of this version", "unknown_step")],
            hint=did_you_mean(step_id, known, f"its steps are {_listed([*known])}"),
        )


def _input(values: Values, old: _OldRun, stored: StoredPipeline, request: Rerun) -> tuple[Any, KeptValue]:
    """The input and its kept form: as it was, unless it was edited or another version completes it."""
    if request.edited is None and stored.version == old.version and old.kept.inline is not None:
        return orjson.loads(old.kept.inline), old.kept
    backend = values.backends.choose(old.tenant, stored.id)
    if request.edited is not None:
        value = stored.spec.input_with_defaults(request.edited.value)
        return value, values.keep(value, backend)
    inline = None if old.kept.inline is None else orjson.loads(old.kept.inline)
    before = values.load(inline, old.kept.path)
    value = before if stored.version == old.version else stored.spec.input_with_defaults(before)
    if value == before:
        return value, old.kept
    return value, replace(values.keep(value, backend), upload_ids=old.kept.upload_ids)


# --- writing ----------------------------------------------------------------------------------------------


def _write(
    tx: Transaction, old: _OldRun, request: Rerun, new: NewRun, catalog: CatalogSnapshot
) -> CreatedRerun:
    tx.hold()
    if request.run_token is not None and (known := _claim_token(tx, old, request, new)) is not None:
        return known
    _require_ended(old)
    steps: tuple[str, ...] = ()
    if request.from_step is not None:
        reused = _reused(tx, old, new, request.from_step)
        plan = new.header.plan
        steps = tuple(plan[each.ordinal].id for each in reused.steps)
        new = new._replace(reused=reused, edits=replace(new.edits, seen=_seen(old, new, reused)))
    [written] = creation.write(tx, [new], catalog)
    version, status = catalog.pipeline.version, written.status.value
    return CreatedRerun(written.id, old.pipeline_id, version, status, steps, created=True, edits=new.edits)


def _claim_token(tx: Transaction, old: _OldRun, request: Rerun, new: NewRun) -> CreatedRerun | None:
    """The earlier rerun with this token; None when there is none, and the token is the new run's now.

    The claim also has the run, the step and the version, so that a token names one rerun of one run.
    """
    asked: list[Any] = [str(old.id), request.from_step, new.input.hash, request.version]
    asked += [] if request.params is None else [request.params.value]
    digest = hashlib.sha256(b"rerun" + orjson.dumps(asked)).hexdigest()
    claim = new._replace(input=replace(new.input, hash=digest))
    earlier_run = triggering.claim_token(tx, claim)
    if earlier_run is None:
        return None
    return CreatedRerun(
        earlier_run.id,
        old.pipeline_id,
        earlier_run.version,
        earlier_run.status,
        tuple(reusing.taken_over(tx, earlier_run.id)),
        created=False,
        edits=RunEdits.of_json(tx.execute(_EDITS, {"id": earlier_run.id}).scalar_one()),
    )


_EDITS = "SELECT r.edits FROM runs AS r WHERE r.id = :id"


def _reused(tx: Transaction, old: _OldRun, new: NewRun, begin: str) -> Reused:
    ended, there = reusing.old_steps(tx, old.id)
    plan = new.header.plan
    if new.header.pipeline_version != old.version:
        before = old.edits.plan(pipelines.get(tx, old.tenant, old.pipeline_id, old.version).plan)
        there_before = reuse.decide(before, old.failure_mode, ended, begin)
        _require_kept(before, new, (*there_before.steps, *there_before.passed_over), begin)
        alike = reuse.same_steps(before, plan)
        ended = {step_id: each for step_id, each in ended.items() if step_id in alike}
    decided = reuse.decide(plan, old.failure_mode, ended, begin)
    if decided.is_skipped:
        raise Conflict(
            f"step {begin!r} was not chosen by the steps before it, so it would be skipped again",
            errors=[FieldError("fromStep", "would be skipped again", "skipped_step")],
            hint="begin at the step that chooses it",
        )
    return Reused(
        old.id,
        [replace(there[plan[each].id], ordinal=each) for each in decided.steps],
        {each: there[plan[each].id].old for each in decided.passed_over},
    )


def _seen(old: _OldRun, new: NewRun, reused: Reused) -> Mapping[str, str]:
    """The hashes of inputs that reused steps have read, or the conditions of steps that are passed over, if
    they are not that of the new run. A step that the run before had reused itself may have read that of an
    earlier run.
    """
    plan = new.header.plan
    readers = reuse.readers_of_input(plan, [each.ordinal for each in reused.steps])
    readers += reuse.decided_by_input(plan, reused.passed_over)
    hashes = {each: old.edits.seen.get(each, old.kept.hash) for each in readers}
    return {each: hash for each, hash in hashes.items() if hash != new.input.hash}


def _require_kept(before: Plan, new: NewRun, reused: Sequence[int], begin: str) -> None:
    """Refuse another version that has changed steps whose results this rerun would have reused."""
    if lost := reuse.lost_steps(before, new.header.plan, reused, begin):
        raise Conflict(
            f"version {new.header.pipeline_version} has changed steps whose results would be reused:"
            f" {_listed(lost)}",
            errors=[
                FieldError("version", f"has changed or lost step {each!r}", "changed_step") for each in lost
            ],
            hint="begin at an earlier step or at the beginning, or stay on the same version",
        )


def _listed(steps: list[str]) -> str:
    more = f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    return ", ".join(map(repr, steps[:_NAMED])) + more
