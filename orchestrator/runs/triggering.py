"""Triggers and cancels runs. engine/advance.py decides how a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PipeWeaveError,
    Unavailable,
)
from pipeweave.labels import Labels
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_key import run_key
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.triggered_by import BY_REQUEST, TriggeredBy
from pipeweave.orchestrator.engine import endings
from pipeweave.orchestrator.engine.endings import EarlyEnd
from pipeweave.orchestrator.queueing import limits, quotas, run_keys, run_slots
from pipeweave.orchestrator.queueing.run_keys import KeyUse
from pipeweave.orchestrator.registry import snapshot
from pipeweave.orchestrator.registry.pipelines import StoredPipeline
from pipeweave.orchestrator.registry.snapshot import CatalogSnapshot, SnapshotOutdated
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.runs import creation
from pipeweave.orchestrator.runs.new_run import NewRun, WrittenRun
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.size_limits import MAX_BATCH_TASK_RUNS, MAX_PRIORITY, MIN_PRIORITY
from pipeweave.spec import FAILURE_MODES, PipelineSpec

# A trigger takes at most this many snapshots; each is useless when the catalog changes before the write.
MAX_SNAPSHOTS = 10


class StartRequest(NamedTuple):
    """A request for a run. `failure_mode` and `priority` None take the pipeline's own.

    Args:
        id: of the run, if it has been given out before; None for a new one.
        queue: the name of the queue of all its steps that name none; None for those of their tasks.
        requires: labels of the worker that all its steps require, beside their own ones; None for none.
    """

    pipeline_id: str
    input: Any = None
    failure_mode: str | None = None
    priority: int | None = None
    metadata: Mapping[str, Any] | None = None
    run_token: str | None = None
    triggered_by: TriggeredBy = BY_REQUEST
    id: UUID | None = None
    queue: str | None = None
    requires: Labels | None = None


class CreatedRun(NamedTuple):
    """An accepted run.

    Args:
        created: False when an earlier run had the same run token and input, or the run was skipped.
        skipped: its key had no room: this is the run of the key that is open.
    """

    id: UUID
    pipeline_id: str
    version: int
    status: str
    entry_tasks: list[str]
    queued_tasks: list[str]
    input_path: str | None
    created: bool
    skipped: bool = False


# Called with a version's spec and its tasks before anything is written; may raise to refuse the runs.
Check = Callable[[PipelineSpec, Mapping[str, TaskRow]], None]
# Called in the transaction that writes the runs, before it does, perhaps more than once; may raise.
Claim = Callable[[Transaction], None]


def trigger(
    tx: Transaction,
    values: Values,
    tenant: str,
    request: StartRequest,
    *,
    version: int | None = None,
    check: Check | None = None,
) -> CreatedRun:
    """Write a run of a pipeline with its task runs, and send its entry steps.

    If the tenant has a limit and no free slot, or the run a key without room, the run is `pending` until its
    turn comes; or it is skipped, if its pipeline says so.

    Args:
        version: of the pipeline; None for the current one.

    Raises:
        NotFound: the tenant has no such pipeline or version.
        LimitExceeded: a batch would write more than MAX_BATCH_TASK_RUNS task runs.
        InvalidInput: the failure mode or the priority is not valid, the input is not JSON that can be
            stored, or it gives no key.
        Conflict: a task of the pipeline is no longer registered, or belongs to an HTTP service.
        Unavailable: storage cannot be reached, maintenance is on, or the catalog changed MAX_SNAPSHOTS times
            meanwhile. Nothing was written.
    """
    return trigger_many(tx, values, tenant, request.pipeline_id, [request], version=version, check=check)[0]


def trigger_many(
    tx: Transaction,
    values: Values,
    tenant: str,
    pipeline_id: str,
    requests: Sequence[StartRequest],
    *,
    version: int | None = None,
    check: Check | None = None,
    claim: Claim | None = None,
) -> list[CreatedRun]:
    """Write runs of one pipeline: all of them or, when one request is wrong, none. See `trigger`.

    Args:
        claim: locks what the runs are for. Large inputs are stored before, while nothing is locked.
    """
    must_read = version is not None or any(each.run_token is not None for each in requests)
    prepared = None if must_read else _prepared_from_memory(tx, values, tenant, pipeline_id, requests, check)
    for _ in range(MAX_SNAPSHOTS):
        if prepared is None:
            catalog = snapshot.take_snapshot_at(tx, tenant, pipeline_id, version)
            prepared = _prepare(tx, values, tenant, catalog, requests, check)
        try:
            if claim is not None:
                tx.hold()
                claim(tx)
            return _write(tx, prepared)
        except SnapshotOutdated:
            prepared = None
    raise Unavailable(
        f"pipeline {pipeline_id!r} or its tasks changed {MAX_SNAPSHOTS} times while a run was triggered",
        hint="try again; some process keeps registering its tasks or storing new versions of it",
    )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Runs that are ready to be written, and the catalog snapshot that they were made from."""

    catalog: CatalogSnapshot
    new_runs: list[NewRun]


def _prepared_from_memory(
    tx: Transaction,
    values: Values,
    tenant: str,
    pipeline_id: str,
    requests: Sequence[StartRequest],
    check: Check | None,
) -> _Prepared | None:
    """Prepare runs from the last snapshot of this process.

    None when there is no snapshot, or when the runs are refused: only a fresh snapshot may refuse a caller.

    Raises:
        Unavailable: storage cannot be reached; a fresh snapshot would not help.
    """
    catalog = snapshot.last_snapshot(tx, tenant, pipeline_id)
    if catalog is None:
        return None
    try:
        return _prepare(tx, values, tenant, catalog, requests, check)
    except Unavailable:
        raise
    except PipeWeaveError:
        return None


def _prepare(
    tx: Transaction,
    values: Values,
    tenant: str,
    catalog: CatalogSnapshot,
    requests: Sequence[StartRequest],
    check: Check | None,
) -> _Prepared:
    """Check the requests and store large inputs. Writes no row."""
    stored = catalog.pipeline
    tasks = runnable(catalog.tasks, stored.spec.tasks)
    _check_size(len(requests), len(stored.plan.steps))
    if check is not None:
        check(stored.spec, tasks)
    new_ids = tx.new_ids(len(requests))
    new_runs = [
        _new_run(each.id or new_id, values, tenant, stored, tasks, each)
        for new_id, each in zip(new_ids, requests, strict=True)
    ]
    return _Prepared(catalog, new_runs)


def _check_size(runs: int, steps: int) -> None:
    """Raise LimitExceeded if a batch would write too much at once. A single run may have all its steps."""
    if runs > 1 and runs * steps > MAX_BATCH_TASK_RUNS:
        raise LimitExceeded(
            f"{runs:,} runs of {steps:,} steps are {runs * steps:,} task runs;"
            f" one request writes at most {MAX_BATCH_TASK_RUNS:,}",
            errors=[FieldError("runs", "would write too many task runs", "too_big")],
            hint=f"start at most {MAX_BATCH_TASK_RUNS // steps:,} runs of this pipeline with one request",
        )


def _write(tx: Transaction, prepared: _Prepared) -> list[CreatedRun]:
    """Claim run tokens and write the runs.

    Raises:
        SnapshotOutdated: the pipeline or a task changed since the snapshot; no run was written.
    """
    wanted = prepared.new_runs
    with_tokens = [each for each in wanted if each.run_token is not None]
    if not with_tokens and not any([each.key is not None and each.key.is_skipped for each in wanted]):
        return _shown(creation.write(tx, wanted, prepared.catalog), [_accepted(each) for each in wanted])
    created: dict[UUID, CreatedRun] = {}
    answers: list[CreatedRun] = []
    new_runs: list[NewRun] = []
    if with_tokens:
        # From here on, so that inputs are stored before the transaction begins.
        tx.hold()
    owners = _claim_tokens(tx, with_tokens)
    busy = _BusyKeys(tx, prepared.new_runs)
    for new in prepared.new_runs:
        first = owners.get(_token(new), new.header.id)
        known = None if first in (new.header.id, *created) else _run_of_token(tx, first, new)
        instead = busy.run_instead_of(new) if known is None and first not in created else None
        if instead is not None:
            if new.run_token is not None:
                _take_token_over(tx, new, instead)
                owners[_token(new)] = instead
            shown = _skipped(created[instead]) if instead in created else _run_of_token(tx, instead, new)
            assert shown is not None, "the run is open, and the tenant's row is locked"
            answers.append(shown._replace(skipped=True))
        elif known is not None:
            answers.append(known)
        elif first in created:
            answers.append(_skipped(created[first]))
        else:
            if first != new.header.id:
                _take_token_over(tx, new)
                owners[_token(new)] = new.header.id
            new_runs.append(new)
            busy.take(new)
            created[new.header.id] = _accepted(new)
            answers.append(created[new.header.id])
    written = creation.write(tx, new_runs, prepared.catalog) if new_runs else []
    return _shown(written, answers)


def _shown(written: Sequence[WrittenRun], answers: list[CreatedRun]) -> list[CreatedRun]:
    """The answers as the runs were written: some wait for their turn."""
    waiting = {each.id for each in written if each.status is RunStatus.PENDING}
    return [_waiting(each) if each.id in waiting else each for each in answers] if waiting else answers


class _BusyKeys:
    """Which keys of runs that are skipped have no room, runs of this transaction among them.

    Locks the tenant's row, so that it stays so, behind the row of the quotas (lock order).
    """

    def __init__(self, tx: Transaction, new_runs: Sequence[NewRun]) -> None:
        self._use: dict[str, KeyUse] = {}
        keys = [each.key for each in new_runs if each.key is not None and each.key.is_skipped]
        if keys:
            header = new_runs[0].header
            tx.hold()
            quotas.lock(tx, header.tenant)
            run_slots.lock(tx, header.tenant)
            self._use = dict(run_keys.use_of(tx, header.tenant, header.pipeline_id or "", keys))

    def run_instead_of(self, new: NewRun) -> UUID | None:
        """The newest open run of the key; None if the new one may be written."""
        use = self._use.get(new.key.text) if new.key is not None else None
        is_full = use is not None and new.key is not None and use.open >= (new.key.limit or 0)
        return use.newest if use is not None and is_full else None

    def take(self, new: NewRun) -> None:
        """Count a run that is about to be written."""
        if new.key is not None and (use := self._use.get(new.key.text)) is not None:
            self._use[new.key.text] = replace(use, open=use.open + 1, newest=new.header.id)


def _skipped(accepted: CreatedRun) -> CreatedRun:
    """The answer for a request that another one of the same transaction answers, too."""
    return accepted._replace(created=False, queued_tasks=[])


def _waiting(accepted: CreatedRun) -> CreatedRun:
    """The answer for a run that waits for its turn: `pending`, with no queued task."""
    return accepted._replace(status=RunStatus.PENDING.value, queued_tasks=[])


def _new_run(
    id: UUID,
    values: Values,
    tenant: str,
    stored: StoredPipeline,
    tasks: Mapping[str, TaskRow],
    request: StartRequest,
) -> NewRun:
    priority = checked_priority(request.priority if request.priority is not None else stored.spec.priority)
    mode = _failure_mode(request.failure_mode or stored.spec.failure_mode)
    value = stored.spec.input_with_defaults(request.input)
    kept = values.keep(value, values.backends.choose(tenant, stored.id))
    inline = value if kept.path is None else None
    header = RunHeader(
        id,
        tenant,
        stored.id,
        stored.version,
        mode,
        priority,
        inline,
        kept.path,
        stored.plan,
        request.triggered_by,
        queue=request.queue,
        requires=request.requires,
    )
    spec = stored.spec
    return NewRun(
        header,
        kept,
        tasks,
        request.metadata,
        request.run_token,
        spec.timeout_ms,
        spec.idle_timeout_ms,
        value=value,
        key=run_key(spec, value),
    )


def _accepted(new: NewRun) -> CreatedRun:
    run, plan = new.header, new.header.plan
    assert run.pipeline_id is not None and run.pipeline_version is not None
    return CreatedRun(
        run.id,
        run.pipeline_id,
        run.pipeline_version,
        "running",
        list(plan.entry_tasks),
        list(plan.queued_tasks),
        run.input_path,
        created=True,
    )


def runnable(tasks: Mapping[str, TaskRow], task_ids: Collection[str]) -> Mapping[str, TaskRow]:
    """Return `tasks` unchanged if each of these ids is registered.

    Raises:
        Conflict: a task is not registered.
    """
    gone = sorted(each for each in task_ids if each not in tasks or tasks[each].orphaned_at is not None)
    if gone:
        raise Conflict(
            f"task {gone[0]!r} is not registered" + (f" (and {len(gone) - 1} more)" if gone[1:] else ""),
            errors=[FieldError("task", f"{each!r} is not registered", "unknown_task") for each in gone[:20]],
            hint="start a worker that loads it, or store a version of the pipeline without it",
        )
    return tasks


def _failure_mode(mode: str) -> str:
    if mode not in FAILURE_MODES:
        expected = ", ".join(FAILURE_MODES)
        raise InvalidInput(
            f"failureMode {mode[:80]!r} is unknown",
            errors=[FieldError("failureMode", "is not a failure mode", "invalid_enum_value", expected)],
        )
    return mode


def checked_priority(priority: int | None) -> int | None:
    """Return the priority unchanged if it is in range or None.

    Raises:
        InvalidInput: the priority is not from MIN_PRIORITY to MAX_PRIORITY.
    """
    if priority is not None and not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        expected = f"{MIN_PRIORITY} to {MAX_PRIORITY}, lower runs first"
        raise InvalidInput(
            f"priority {priority} is out of range",
            errors=[FieldError("priority", "is out of range", "out_of_range", expected)],
        )
    return priority


# --- idempotent creation ----------------------------------------------------------------------------------

# The claim and the run commit together: a second transaction waits here for the first, then finds its run.
_CLAIM_TOKEN = """
INSERT INTO run_tokens (tenant_id, run_token, pipeline_id, inputs_hash, run_id, created_at)
VALUES (:tenant, :token, :pipeline_id, :hash, :run_id, :now)
ON CONFLICT (tenant_id, run_token, pipeline_id, inputs_hash) DO UPDATE SET run_token = EXCLUDED.run_token
RETURNING run_id
"""

_Token = tuple[str | None, str]


def _token(new: NewRun) -> _Token:
    return new.run_token, new.input.hash


def _claim_tokens(tx: Transaction, new_runs: Sequence[NewRun]) -> dict[_Token, UUID]:
    """For each token with its input, the id of the run that owns it: the new run or an earlier one.

    Tokens are claimed in sorted order, so that two batches cannot deadlock.
    """
    owners: dict[_Token, UUID] = {}
    for new in sorted(new_runs, key=lambda each: (each.run_token or "", each.input.hash)):
        if _token(new) not in owners:
            claimed = tx.execute(_CLAIM_TOKEN, _token_parameters(new) | {"now": tx.now})
            owners[_token(new)] = claimed.scalar_one()
    return owners


def _token_parameters(new: NewRun) -> dict[str, Any]:
    return {
        "tenant": new.header.tenant,
        "token": new.run_token,
        "pipeline_id": new.header.pipeline_id,
        "hash": new.input.hash,
        "run_id": new.header.id,
    }


def claim_token(tx: Transaction, new: NewRun) -> CreatedRun | None:
    """Claim the token of one new run; the earlier run that owns it, None if the new run owns it now."""
    first = _claim_tokens(tx, [new])[_token(new)]
    known = None if first == new.header.id else _run_of_token(tx, first, new)
    if known is None and first != new.header.id:
        _take_token_over(tx, new)
    return known


_TAKE_TOKEN_OVER = """
UPDATE run_tokens SET run_id = :run_id, created_at = :now
WHERE tenant_id = :tenant AND run_token = :token AND pipeline_id = :pipeline_id AND inputs_hash = :hash
"""


def _take_token_over(tx: Transaction, new: NewRun, run_id: UUID | None = None) -> None:
    """Give the token to this run, because the history of its earlier run was dropped; or to the run that is
    open instead of it.

    The claim has locked the token's row: of two transactions that do this, the second finds this run.
    """
    parameters = _token_parameters(new) | {"now": tx.now}
    tx.execute(_TAKE_TOKEN_OVER, parameters if run_id is None else parameters | {"run_id": run_id})


_KNOWN = "SELECT status, pipeline_version, input_path FROM runs WHERE id = :id"


def _run_of_token(tx: Transaction, run_id: UUID, new: NewRun) -> CreatedRun | None:
    """The earlier run that owns the token; None when its history was dropped."""
    row = tx.execute(_KNOWN, {"id": run_id}).one_or_none()
    if row is None:
        return None
    return _accepted(new)._replace(
        id=run_id,
        version=row.pipeline_version,
        status=row.status,
        queued_tasks=[],
        input_path=row.input_path,
        created=False,
    )


# --- cancel -----------------------------------------------------------------------------------------------

_STATUS = "SELECT status FROM runs WHERE id = :id AND tenant_id = :tenant AND pipeline_id IS NOT NULL"


def cancel(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    *,
    reason: str | None = None,
    by: str | None = None,
    now: bool = False,
) -> None:
    """Cancel an open run. Running attempts are fenced: their results no longer change anything. A run in its
    ending ends at once.

    Args:
        reason: stored with the run, as the message of its error.
        by: who cancels it; stored with the run.
        now: nothing follows its last step, whatever its pipeline says.

    Raises:
        NotFound: the tenant has no such run, or it is a standalone task's run (see `cancel_task`).
        Conflict: the run is final already.
    """
    shown = ids.show(ids.RUN, run_id)
    status = tx.execute(_STATUS, {"id": run_id, "tenant": tenant}).scalar_one_or_none()
    if status is None:
        raise NotFound(f"run {shown} not found")
    if not _cancel(tx, tenant, run_id, reason, by, now=now):
        raise Conflict(f"run {shown} is already {status}", hint="a run that has ended cannot be cancelled")


_TASK_RUN = """
SELECT t.status, r.pipeline_id FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id
WHERE t.run_id = :run_id AND t.id = :id AND t.tenant_id = :tenant
"""


def cancel_task(
    tx: Transaction, tenant: str, task_run_id: UUID, *, reason: str | None = None, by: str | None = None
) -> None:
    """Cancel an open standalone task run, as `cancel` does with a run.

    Raises:
        NotFound: the tenant has no such task run.
        Conflict: the task run is final already, or is a step of a pipeline's run.
    """
    shown, run_id = ids.show(ids.TASK_RUN, task_run_id), ids.run_id_of(task_run_id)
    key = {"run_id": run_id, "id": task_run_id, "tenant": tenant}
    row: Any = tx.execute(_TASK_RUN, key).one_or_none()
    if row is None:
        raise NotFound(f"task run {shown} not found")
    if row.pipeline_id is not None:
        run = ids.show(ids.RUN, run_id)
        raise Conflict(f"task run {shown} is a step of run {run}", hint=f"cancel the run: {run}")
    if not _cancel(tx, tenant, run_id, reason, by):
        raise Conflict(
            f"task run {shown} is already {row.status}", hint="a task run that has ended cannot be cancelled"
        )


def _cancel(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    reason: str | None,
    by: str | None = None,
    *,
    now: bool = False,
) -> bool:
    return cancel_open(tx, tenant, run_id, reason or "cancelled on request", by, now=now)


def cancel_open(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    reason: str,
    by: str | None = None,
    *,
    code: str = "CANCELLED",
    now: bool = False,
    stops_ending: bool = True,
) -> bool:
    """Cancel a run of a tenant if it is open. False when it has ended.

    Args:
        by: who cancels it; None if nobody does, or that is not known.
        code: of its error.
        now: nothing follows its last step.
        stops_ending: a run that is in its ending ends at once; else it is left alone.
    """
    run = run_headers.load(tx, run_id)
    if run is None:
        return False
    error = {"code": code, "message": reason, **({} if by is None else {"by": by})}
    early = EarlyEnd(RunStatus.CANCELLED, error, code, reason)
    cancelled = endings.end_early(tx, run, early, at_once=now)
    if cancelled is None:
        return stops_ending and run.plan.has_ending and endings.stop(tx, run, error)
    limits.fill(tx, tenant, {each.task_id for each in cancelled if each.takes_slot})
    return True
