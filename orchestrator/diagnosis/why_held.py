"""Reasons why a task run without open predecessors does not start: pauses, limits, the queue, no worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pipeweave.errors import Unavailable
from pipeweave.labels import Labels, in_words
from pipeweave.orchestrator.bundles import installed
from pipeweave.orchestrator.diagnosis.why_reasons import MOST_COUNTED, Reason, nth, reason, seconds, up_to
from pipeweave.orchestrator.domain import gcra, queue_names
from pipeweave.orchestrator.domain.json_shapes import iso, run_id
from pipeweave.orchestrator.messaging.publisher import level
from pipeweave.orchestrator.queueing import limits, pauses, placement
from pipeweave.orchestrator.queueing.limits import TaskLimits
from pipeweave.orchestrator.recovery import lost_messages
from pipeweave.orchestrator.recovery.lost_messages import LATE
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import CALLED

# Queue -> for each level, when the message that a worker takes next was sent (`Publisher.oldest`).
Oldest = Callable[[str], Mapping[int, float | None]]


def pause_reasons(tx: Transaction, row: Any) -> Iterator[Reason]:
    """The pauses that apply to a task run. `row` is a row of why.py's query."""
    if row.paused_at is not None:
        yield run_paused(row, "its run")
    for each in pauses.find(tx, row.tenant_id):
        if each.task_id not in (None, row.task_id):
            continue
        code, what = ("tenant_paused", "the tenant") if each.task_id is None else ("task_paused", "its task")
        because = f": {each.reason}" if each.reason else ""
        text = f"{what} is paused since {iso(each.paused_at)}{because}"
        yield reason(code, text, since=iso(each.paused_at), reason=each.reason)


def run_paused(row: Any, what: str) -> Reason:
    """The pause of a run.

    Args:
        row: `run_id`, `paused_at`, `paused_by` and `pause_reason`.
        what: what the run is called.
    """
    who = f" by {row.paused_by}" if row.paused_by else ""
    because = f": {row.pause_reason}" if row.pause_reason else ""
    ends = f"`pipeweave resume {run_id(row.run_id)}` ends that"
    text = f"{what} is paused since {iso(row.paused_at)}{who}{because}; {ends}"
    numbers = {"since": iso(row.paused_at), "by": row.paused_by, "reason": row.pause_reason}
    return reason("run_paused", text, **numbers)


def limit_reasons(tx: Transaction, row: Any) -> Iterator[Reason]:
    """The pauses and, for a limited task, the limits that have no room."""
    yield from pause_reasons(tx, row)
    if not row.is_limited or row.kind not in CALLED:
        return
    capacity = limits.limits_of(tx, row.tenant_id, row.task_id)
    position = limits.position(tx, row.tenant_id, row.task_id, row.priority, row.id, MOST_COUNTED)
    if capacity.rate_room is not None and position > capacity.rate_room:
        yield _rate_limited(capacity, position, row.now)
    if capacity.deployment_room == 0:
        text = "all places of the deployment are taken: so many task runs as its limit allows are at work"
        yield reason("deployment_limit", text)
    if capacity.free is not None and position > capacity.free:
        text = (
            f"its task allows {capacity.concurrency:,} at once, and {capacity.live:,} are running or queued; "
            f"it is {nth(position)} in its queue"
        )
        numbers = {"live": capacity.live, "concurrency": capacity.concurrency, "position": position}
        yield reason("concurrency_limit", text, **numbers)


def _rate_limited(capacity: TaskLimits, position: int, now: datetime) -> Reason:
    assert capacity.rate is not None
    starts = gcra.when(capacity.rate, capacity.on_time, position)
    in_s = max(0.0, seconds(starts, now))
    text = (
        f"its task may start {capacity.rate}, all workers together: it is {nth(position)} in its queue, "
        f"its turn comes in {in_s:g} s"
    )
    numbers = {"rateLimit": str(capacity.rate), "startsAt": iso(starts), "inS": in_s, "position": position}
    return reason("rate_limit", text, **numbers)


# --- queued -----------------------------------------------------------------------------------------------

_AHEAD = """
SELECT count(*) FROM (
    SELECT 1 FROM task_runs AS t WHERE t.status = 'queued' AND t.queue = :queue
        AND (t.priority, t.queued_at) < (:priority, CAST(:queued_at AS timestamptz)) LIMIT :most) AS a
"""


def queue_reasons(tx: Transaction, row: Any, oldest: Oldest) -> Iterator[Reason]:
    """What a queued task run waits for: a worker, task runs ahead of it, or a message that was lost."""
    taker = placement.taker_of(tx, row.tenant_id, row.task_id, row.pinned_to, row.queue_name, row.requires)
    if queue_names.is_parking(row.queue):
        yield _not_loaded(tx, row, taker)
        return
    alive, _ = worker_processes.alive_of_queue(tx, row.queue)
    if not alive and installed.bundle_of_task(tx, row.tenant_id, row.task_id) is not None:
        yield _not_loaded(tx, row, taker)
    elif not alive:
        required = queue_names.required_in(row.queue)
        text = _no_labels(row.queue, required) if required else f"no running worker serves {row.queue}"
        yield reason("no_worker", text, queue=row.queue, workers=0)
    elif not taker.lives and not worker_processes.has_silent(tx, row.queue):
        yield _not_loaded(tx, row, taker)
    yield from line_reasons(tx, row, oldest)


def _no_labels(queue: str, required: Labels) -> str:
    """Why nobody takes what requires labels, and what helps."""
    options = " ".join(f"--label {name}={value}" for name, value in sorted(required.items()))
    served = queue_names.without_labels(queue)
    return (
        f"no running worker that serves {served} has {in_words(required)}: it waits for one "
        f"(`pipeweave worker {options}`)"
    )


def line_reasons(tx: Transaction, row: Any, oldest: Oldest | None) -> Iterator[Reason]:
    """What is ahead of a queued task run, and whether its message was lost.

    Args:
        oldest: None when no message is needed.
    """
    alive, places = worker_processes.alive_of_queue(tx, row.queue)
    place = {"queue": row.queue, "priority": row.priority, "queued_at": row.queued_at}
    ahead = int(tx.execute(_AHEAD, place | {"most": MOST_COUNTED}).scalar_one())
    workers = f"running workers: {alive:,}, for {places:,} task runs at once"
    text = f"it is queued, with {up_to(ahead)} ahead of it; {workers}"
    numbers = {"ahead": ahead, "priority": row.priority, "queue": row.queue}
    yield reason("queued", text, **numbers, workers=alive, places=places)
    if oldest is not None:
        yield from _lost_message(row, oldest)


def _not_loaded(tx: Transaction, row: Any, taker: placement.Taker) -> Reason:
    version = None if row.pinned_to is None else row.code_version
    code = "" if version is None else f" in code version {version}, to which its run is pinned"
    if row.queue_name is not None:
        code += f" and serves the queue {row.queue_name}, which its step or run has chosen"
    if required := {**(row.task_requires or {}), **(row.requires or {})}:
        code += f" and the labels {in_words(required)}"
    if taker.is_leaving and not taker.lives:
        text = (
            f"the workers that have task {row.task_id}{code} drain or stop, and take nothing more: it waits "
            "until one is resumed (`pipeweave workers resume`), or another one starts"
        )
    else:
        since = "" if taker.last_seen is None else f" since {iso(taker.last_seen)}"
        bundle = installed.bundle_of_task(tx, row.tenant_id, row.task_id)
        text = f"no live worker has task {row.task_id}{code}{since}: " + (
            "it waits for one; `pipeweave deploys` shows who has what, `pipeweave tasks remove` cancels it"
            if bundle is None
            else _without_bundle(bundle)
        )
    numbers = {"taskId": row.task_id, "codeVersion": version, "lastSeen": iso(taker.last_seen)}
    return reason("task_not_loaded", text, **numbers)


def _without_bundle(bundle: installed.BundleOfTask) -> str:
    """Why the task of a bundle is not loaded, and what helps."""
    name, because = f"bundle {bundle.id} {bundle.version}", f" ({bundle.reason})" if bundle.reason else ""
    if bundle.state == "revoked":
        return f"{name} is revoked{because}; it waits until a newer version is installed"
    if bundle.state == "installed" and not bundle.is_trusted:
        return (
            f"every key that signed {name} is revoked{because}; it waits until the bundle is installed with "
            "the signature of a trusted key"
        )
    if bundle.state == "installed":
        return f"{name} is installed; it waits for a worker of bundles (`pipeweave worker --bundles`)"
    return f"it is of {name}, and the newer version of that bundle has it no more"


def _lost_message(row: Any, oldest: Oldest) -> Iterator[Reason]:
    try:
        waiting = oldest(row.queue)
    except Unavailable as error:
        yield reason(
            "broker_away", f"{error.detail}: the scheduler loop sends its message when the broker is back"
        )
        return
    before = lost_messages.lost_before(row.now - lost_messages.LEEWAY, waiting[level(row.priority)])
    if row.queued_at < before:
        in_s = max(0.0, LATE.total_seconds() - seconds(row.now, row.queued_at))
        text = f"its message was lost: the scheduler loop sends it again in {in_s:g} s"
        yield reason("message_late", text, inS=in_s, queuedAt=iso(row.queued_at))
