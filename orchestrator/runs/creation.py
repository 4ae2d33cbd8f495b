"""Writes new runs: rows of runs, task runs and events, any number of runs of a tenant in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from pipeweave import ids
from pipeweave.labels import Labels
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.events import QUEUED, Event, held, together
from pipeweave.orchestrator.domain.facts import NewerRun
from pipeweave.orchestrator.domain.plan import Plan, PlannedStep
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_edits import NO_EDITS
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.objects import uploads
from pipeweave.orchestrator.queueing import maintenance_mode, quotas, run_keys, run_slots, start_conditions
from pipeweave.orchestrator.queueing.quotas import QuotaCount
from pipeweave.orchestrator.queueing.start_conditions import Holds
from pipeweave.orchestrator.registry import snapshot
from pipeweave.orchestrator.registry.snapshot import CatalogSnapshot, SnapshotOutdated
from pipeweave.orchestrator.registry.task_rows import HTTP, TaskRow
from pipeweave.orchestrator.runs import prepared_starts, row_texts, run_sql
from pipeweave.orchestrator.runs.new_run import NewRun, WrittenRun
from pipeweave.orchestrator.runs.row_texts import RunTexts
from pipeweave.orchestrator.state import deployment_mode, reusing, run_transitions
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import WITH_ITEMS, StepSpec

# What task runs of steps that the engine decides have as the version and the hash of their code.
ENGINE_CODE_VERSION = 0
ENGINE_CODE = "engine"


_WRITE = run_sql.write_sql(deployment_mode.ACCEPTING)
# A run inside of one that is under way goes on while maintenance waits for the end of that one.
_WRITE_CHILDREN = run_sql.write_sql(
    deployment_mode.GOING_ON,
    ", parent_run_id, parent_task_run_id, root_run_id, depth, body, scope",
    ", r.parent_run_id, r.parent_task_run_id, r.root_run_id, r.depth, r.body, r.scope",
    ", parent_run_id uuid, parent_task_run_id uuid, root_run_id uuid, depth smallint, body text, scope jsonb",
)
# What the runs of a batch share is sent and read once.
_WRITE_ALIKE = run_sql.write_alike_sql(deployment_mode.ACCEPTING)


def write(
    tx: Transaction, new_runs: Sequence[NewRun], catalog: CatalogSnapshot | None = None
) -> list[WrittenRun]:
    """Write runs of one tenant with a task run for each step, and send their entry steps.

    If the tenant has a limit, the first runs take the free slots and the others are `pending`, and so are
    those whose keys have no room. Entry steps of a paused task are `ready`, and are not sent.

    Args:
        catalog: the snapshot of the pipeline that the runs were made from; None for standalone tasks.

    Raises:
        Unavailable: nothing new is accepted during maintenance; nothing was written.
        SnapshotOutdated: the pipeline or a task changed since the snapshot; nothing was written.
        Conflict: the run whose results are reused was continued; nothing was written.
        UploadNotUsable: an input names an upload that was deleted or has expired; nothing was written.
        LimitExceeded: an input names too many uploads; nothing was written.
        QuotaExceeded: a quota of the tenant has no room for all of the runs; nothing was written.
        TenantDisabled: the tenant is disabled; nothing was written.
    """
    tenant = new_runs[0].header.tenant
    _claim_uploads(tx, tenant, new_runs)
    expected = start_conditions.expected(tx, tenant)
    # Only a fresh look may refuse a caller.
    expected = start_conditions.look(tx, tenant) if expected.is_disabled else expected
    counted = _admitted(tx, new_runs, expected)
    while (written := _write(tx, new_runs, expected, catalog)) is None:
        holds = start_conditions.look(tx, tenant)
        if holds == expected:
            raise _refused(tx, catalog, is_child=new_runs[0].header.parent is not None)
        expected = holds
        counted = _admitted(tx, new_runs, expected)
    if counted is not None:
        quotas.note(tx, counted)
    for text in {each.key.text for each in new_runs if each.key is not None and each.key.replaces}:
        tx.announce(NewerRun(tenant, new_runs[0].header.pipeline_id or "", text))
    begun = [new for new, run in zip(new_runs, written, strict=True) if run.status is RunStatus.RUNNING]
    run_transitions.announce_start(tx, *(each.header for each in begun))
    for new, run in zip(new_runs, written, strict=True):
        if new.reused is not None:
            reusing.reuse(tx, new.header, new.reused)
        if run.prepared is not None:
            tx.send(*run.prepared.outbox(run.id))
        elif run.status is RunStatus.RUNNING:
            sent = len(tx.outbox)
            _begin(tx, new, run.task_runs)
            if catalog is not None and _is_usual(new, catalog):
                rows = _task_run_rows(new, run.task_runs)
                prepared_starts.keep(catalog, new.header, expected, rows, run.task_runs, tx.outbox[sent:])
    return written


def _admitted(tx: Transaction, new_runs: Sequence[NewRun], expected: Holds) -> QuotaCount | None:
    """What counts for the tenant's quotas with these runs; None if nothing does.

    A run inside of one that is under way belongs to it: it is never refused, and no run of its day.

    Raises:
        TenantDisabled, QuotaExceeded: as `write`.
    """
    first = new_runs[0].header
    if first.parent is not None:
        return None
    if expected.is_disabled:
        raise quotas.disabled(tx, first.tenant)
    if not expected.has_quotas:
        return None
    task_runs = sum(len(each.header.plan.steps) for each in new_runs)
    return quotas.check_runs(tx, first.tenant, len(new_runs), task_runs)


def _claim_uploads(tx: Transaction, tenant: str, new_runs: Sequence[NewRun]) -> None:
    """Claim the uploads that the inputs name, in the transaction that writes the runs."""
    wanted = {each.header.id: each.input.upload_ids for each in new_runs if each.input.upload_ids}
    if wanted:
        tx.hold()
        uploads.claim(tx, tenant, wanted)


def _refused(tx: Transaction, catalog: CatalogSnapshot | None, *, is_child: bool) -> Exception:
    """The error when nothing was written although the start conditions were as expected.

    If maintenance does not refuse the runs now, their snapshot was outdated.
    """
    mode = deployment_mode.mode(tx)
    goes_on = mode == deployment_mode.RUNNING or (is_child and mode != deployment_mode.MAINTENANCE)
    if catalog is not None and goes_on:
        return SnapshotOutdated()
    return maintenance_mode.refused(tx)


def _write(
    tx: Transaction, new_runs: Sequence[NewRun], expected: Holds, catalog: CatalogSnapshot | None
) -> list[WrittenRun] | None:
    """Write the runs in one statement; None when a guard did not hold, so nothing was written."""
    starts = _starting(tx, new_runs, expected)
    written = [
        _written(new, expected, catalog, has_place=has_place)
        for new, has_place in zip(new_runs, starts, strict=True)
    ]
    needs_more = (
        run.prepared is None and (new.reused or _needs_more(new.header.plan, run.task_runs))
        for new, run in zip(new_runs, written, strict=True)
    )
    if any(needs_more):
        tx.hold()
    alike = row_texts.alike(new_runs, [each.prepared for each in written], tx.now)
    parameters = _rows(new_runs, written, tx.now) if alike is None else alike
    parameters |= {"tenant": new_runs[0].header.tenant, "now": tx.now, **expected.as_parameters()}
    parameters |= snapshot.ANY_CATALOG if catalog is None else catalog.as_parameters()
    if alike is not None:
        # Only runs without a parent are prepared, and only prepared runs are alike.
        statement = _WRITE_ALIKE
    else:
        statement = _WRITE if new_runs[0].header.parent is None else _WRITE_CHILDREN
    return written if tx.execute(statement, parameters).rowcount else None


def _rows(new_runs: Sequence[NewRun], written: Sequence[WrittenRun], now: datetime) -> dict[str, Any]:
    """The rows of the runs, of their task runs and of their events, as parameters of the statement."""
    texts = RunTexts(now)
    rows, task_runs, events = [], [], []
    for new, run in zip(new_runs, written, strict=True):
        run_id = str(run.id)
        row, created = texts.of(new, run.status, run_id)
        of_steps, moved = _texts(new, run, run_id)
        rows.append(row)
        task_runs.append(of_steps)
        events += [created, moved] if moved else [created]
    return {
        "runs": f"[{','.join(rows)}]",
        "task_runs": f"[{','.join(task_runs)}]",
        "events": f"[{','.join(events)}]",
    }


def _starting(tx: Transaction, new_runs: Sequence[NewRun], expected: Holds) -> list[bool]:
    """Which of the runs start at once. Standalone tasks and children take no slot, and have no keys."""
    first = new_runs[0].header
    keys = [each.key for each in new_runs]
    named = [each for each in keys if each is not None]
    if first.pipeline_id is None or first.parent is not None or not (expected.is_limited or named):
        return [True] * len(new_runs)
    places = None
    if expected.is_limited:
        places = run_slots.places(tx, first.tenant)
    else:
        run_slots.lock(tx, first.tenant)
    if not named:
        return [places is None or number < places for number in range(len(new_runs))]
    # What starts now does not start before what the lock's last holder has started: rates are kept by that.
    tx.catch_up()
    starts = run_keys.starting(keys, run_keys.use_of(tx, first.tenant, first.pipeline_id, named))
    if places is None:
        return starts
    return [has_room and sum(starts[:number]) < places for number, has_room in enumerate(starts)]


def _is_usual(new: NewRun, catalog: CatalogSnapshot) -> bool:
    """Whether the snapshot and the holds say how the run begins, but for what `prepared_starts` knows."""
    run = new.header
    return (
        run.plan is catalog.pipeline.plan
        and run.parent is None
        and new.reused is None
        and new.edits is NO_EDITS
        and new.idempotency_key is None
        and run.id.int % ids.MAX_TASK_RUNS == 0
    )


def _texts(new: NewRun, run: WrittenRun, run_id: str) -> tuple[str, str]:
    """JSON text of the rows of a run's task runs, and of their events, without the brackets of the lists."""
    if run.prepared is not None:
        return run.prepared.rows(run_id)
    moved = [prepared_starts.event_row(each) for each in _moved(run.task_runs)]
    rows = orjson.dumps(_task_run_rows(new, run.task_runs)).decode()
    return rows[1:-1], orjson.dumps(moved).decode()[1:-1]


def _written(new: NewRun, expected: Holds, catalog: CatalogSnapshot | None, *, has_place: bool) -> WrittenRun:
    if has_place and catalog is not None and _is_usual(new, catalog):
        prepared = prepared_starts.find(catalog, new.header, expected)
        if prepared is not None:
            return WrittenRun(new.header.id, RunStatus.RUNNING, (), prepared)
    # What a rerun from a step begins with is decided when the results before are there.
    is_begun = has_place and new.reused is None
    entries = frozenset(new.header.plan.entries) if is_begun else frozenset[int]()
    task_runs = [
        _task_run(new.header, each.ordinal, _row_of(new, each), expected, each.ordinal in entries)
        for each in new.header.plan.steps
    ]
    if new.idempotency_key is not None:
        task_runs = [each._replace(idempotency_key=new.idempotency_key) for each in task_runs]
    return WrittenRun(new.header.id, RunStatus.RUNNING if has_place else RunStatus.PENDING, task_runs)


def _row_of(new: NewRun, step: PlannedStep) -> TaskRow | None:
    return _task_of(new.header.plan, new.tasks, step)


def _task_of(plan: Plan, tasks: Mapping[str, TaskRow], step: PlannedStep) -> TaskRow | None:
    """The task of a step; of a step that the engine decides, the one whose queue has its messages."""
    task = step.step.task if step.step.has_task else plan.nearest_task[step.ordinal]
    return None if task is None else tasks[task]


def unreleased_row(run: RunHeader, ordinal: int, tasks: Mapping[str, TaskRow]) -> dict[str, Any]:
    """The columns of a step's task run before anything happened to it.

    Args:
        tasks: of the run's pipeline, by id, as they are registered now.

    Raises:
        KeyError: the task is not among them.
    """
    step = run.plan[ordinal]
    task = _task_of(run.plan, tasks, step)
    task_run = _task_run(run, ordinal, task, Holds(), is_entry=False)
    return _task_run_row(task_run, run, step.step, task)


def _needs_more(plan: Plan, rows: Sequence[TaskRun]) -> bool:
    """Whether the run's start needs more statements than the one that writes it: for a limit, a map, or a
    step that values decide about.
    """
    if not plan.waiting_for_values.isdisjoint(plan.entries):
        return True
    return any(each.status is TaskStatus.READY or each.kind in WITH_ITEMS for each in rows)


def _begin(tx: Transaction, new: NewRun, rows: Sequence[TaskRun]) -> None:
    run = new.header
    if new.reused is not None:
        advance = Advance(tx, run)
        advance.admit()
        advance.close()
        return
    # A body has the input of its parent: a large one was not loaded for it.
    loaded: dict[str, Any] = {}
    if run.input_path is not None and new.value is not None:
        loaded[run.input_path] = new.value
    advance = Advance(tx, run, loaded=loaded)
    advance.begin([rows[ordinal - 1] for ordinal in run.plan.entries])
    advance.touched.note(run.tenant, [each.task_id for each in rows if each.status is TaskStatus.READY])
    advance.close()


def _task_run(run: RunHeader, ordinal: int, task: TaskRow | None, expected: Holds, is_entry: bool) -> TaskRun:
    step = run.plan[ordinal].step
    if task is None or not step.has_task:
        return _engine_task_run(run, ordinal, task)
    is_limited = task.concurrency > 0 or task.rate_limit is not None or expected.is_deployment_limited
    status = TaskStatus.PENDING
    if is_entry and step.is_called and not step.waits_for_values:
        is_held = is_limited or expected.is_paused(task.id)
        status = TaskStatus.READY if is_held else TaskStatus.QUEUED
    return TaskRun(
        id=ids.task_run_id(run.id, ordinal),
        run_id=run.id,
        step_id=step.id,
        task_id=step.task,
        kind=step.kind,
        status=status,
        attempt=1,
        map_index=None,
        map_parent=None,
        item=None,
        priority=task.priority if run.priority is None else run.priority,
        queue=task.queue_for(run.tenant, *_chosen(run, step, task)),
        is_limited=is_limited,
        code_version=task.code_version,
        code_hash=task.code_hash,
    )


def _chosen(run: RunHeader, step: StepSpec, task: TaskRow | None) -> tuple[str | None, Labels | None]:
    """The queue that a step, or else its run, has chosen, and the labels that both require. None for what its
    task says; dispatches to HTTP services wait for no worker of theirs.
    """
    if task is None or not step.has_task or task.service_kind == HTTP:
        return None, None
    return step.queue or run.queue, {**(run.requires or {}), **step.known_labels} or None


def _engine_task_run(run: RunHeader, ordinal: int, near: TaskRow | None) -> TaskRun:
    """The task run of a step that the engine decides.

    Args:
        near: the task whose queue has messages about its join; None where no step has a task.
    """
    step = run.plan[ordinal].step
    return TaskRun(
        id=ids.task_run_id(run.id, ordinal),
        run_id=run.id,
        step_id=step.id,
        task_id=step.task,
        kind=step.kind,
        status=TaskStatus.PENDING,
        attempt=1,
        map_index=None,
        map_parent=None,
        item=None,
        priority=run.priority or (0 if near is None else near.priority),
        queue=queue_names.NOBODY if near is None else near.queue,
        is_limited=False,
        code_version=ENGINE_CODE_VERSION,
        code_hash=ENGINE_CODE,
    )


def _max_attempts(step: StepSpec, task: TaskRow | None) -> int:
    if task is None or not step.has_task:
        return 1
    return task.max_attempts if step.retry is None else step.retry.attempts


def _task_run_row(task_run: TaskRun, run: RunHeader, step: StepSpec, task: TaskRow | None) -> dict[str, Any]:
    name, requires = _chosen(run, step, task)
    chosen: dict[str, Any] = {} if name is None else {"queue_name": name}
    chosen |= {} if requires is None else {"requires": requires}
    keyed = {} if task_run.idempotency_key is None else {"idempotency_key": task_run.idempotency_key}
    limited = {} if step.timeout_ms is None else {"timeout_ms": step.timeout_ms}
    return (
        keyed
        | limited
        | chosen
        | {
            "run_id": task_run.run_id,
            "id": task_run.id,
            "step_id": task_run.step_id,
            "task_id": task_run.task_id,
            "kind": task_run.kind,
            "status": task_run.status.value,
            "max_attempts": _max_attempts(step, task),
            "priority": task_run.priority,
            "queue": task_run.queue,
            "is_limited": task_run.is_limited,
            "code_version": task_run.code_version,
            "code_hash": task_run.code_hash,
        }
    )


def _task_run_rows(new: NewRun, task_runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
    return [
        _task_run_row(each, new.header, step.step, _row_of(new, step))
        for each, step in zip(task_runs, new.header.plan.steps, strict=True)
    ]


def _moved(rows: Sequence[TaskRun]) -> list[Event]:
    """The events of the task runs that are not pending."""
    queued = together(QUEUED, [each for each in rows if each.status is TaskStatus.QUEUED])
    return queued + held([each for each in rows if each.status is TaskStatus.READY])
