"""Looks at waits, and ends those that are over: the only verb that does, whoever noticed.

A reaction looks right after a wait began and after a signal was stored; a loop and the tick look at what is
due. Two looks at one wait do no harm: the guard is the attempt of its task run, and who comes second changes
nothing. A look decides by what it reads without locks. What comes a moment later is seen by the look that
follows it.

Rows are locked in this order: the keys under which suspended calls execute, the run, the signals that the
wait takes (others pass over them), the task run, the wait. No message counts for what ends here, so joins are
checked in PostgreSQL.
"""

from __future__ import annotations

import functools
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import InvalidSetting, PipeWeaveError, Unavailable
from pipeweave.orchestrator.domain.facts import Name
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Completion, KeptValue, TaskRun
from pipeweave.orchestrator.domain.waits import APPROVAL, CHILD, POLL, Signal
from pipeweave.orchestrator.engine import idempotency, key_waiters
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.state import run_headers, signals, waits
from pipeweave.orchestrator.state.run_endings import EndingRun
from pipeweave.orchestrator.state.run_endings import find as find_endings
from pipeweave.orchestrator.state.waits import EndedWell, Waiting
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import keep_inline
from pipeweave.orchestrator.waits import child_starts, children, error_runs, lines, quiet, run_endings
from pipeweave.orchestrator.waits.ending import Completes, Ending, Fails, GoesOn, Later, Starts, decide
from pipeweave.orchestrator.waits.held import NOTHING_HELD, Held, Need, Paths, TooLarge

log = logging.getLogger(__name__)

# A wait by its run and its task run; that of a run in its ending has the id of the run in both places.
Key = tuple[UUID, UUID]
# A wait whose child starts: of a step, or of a run in its ending.
Starting = Waiting | EndingRun
# Children that start right after something happened; the others are due, and start with what is.
MOST_STARTS = 500
# Children that start in one transaction, with their parent locked, or whose ends are looked at in one.
STARTED_TOGETHER = 100
# Who looks for ended children looks again so often.
MOST_ROUNDS = 10


@dataclass(slots=True)
class Looked:
    """What a look found.

    Args:
        ended: the waits that it ended.
        lacking: waits that are left, because they need something of storage.
        starting: waits, of steps or of runs in their ending, whose child runs start now.
    """

    ended: int = 0
    lacking: list[tuple[Key, Need]] = field(default_factory=list)
    starting: list[Starting] = field(default_factory=list)


def look_without_storage(database: Database, keys: Sequence[Key]) -> int:
    """As `loading.look`, but what needs storage is left to those who wait for it (`due.run_stored`)."""
    looked = database.run(lambda tx: look_at(tx, keys))
    for some in of_one_step(looked.starting):
        looked.ended += start_together(database, some)[1]
    return looked.ended


def of_one_step(starting: Sequence[Starting]) -> Iterator[list[Starting]]:
    """Waits whose children start together: those of one step, and not too many."""
    for _, of_step in groupby(starting, _step):
        some = list(of_step)
        for first in range(0, len(some), STARTED_TOGETHER):
            yield some[first : first + STARTED_TOGETHER]


def _step(waiting: Starting) -> tuple[UUID, str]:
    return waiting.wait.run_id, "" if isinstance(waiting, EndingRun) else waiting.task_run.step_id


def start_together(
    database: Database, waiting: Sequence[Starting], held: Held = NOTHING_HELD
) -> tuple[list[tuple[Starting, Need]], int]:
    """Start children of one step. Returns those that lack something of storage, and how many waits ended.
    Where nothing starts now, as in maintenance, they are due.
    """
    try:
        return database.run(lambda tx: start(tx, waiting, held))
    except (Unavailable, InvalidSetting) as error:
        log_delay((waiting[0].wait.run_id, waiting[0].wait.task_run_id), error)
        return [], 0


def log_delay(key: Key, error: PipeWeaveError) -> None:
    """Log that a wait has to wait for a store, or for the catalog."""
    shown = ids.show(ids.TASK_RUN, key[1])
    log.warning("wait.delayed", extra={"task_run_id": shown, "reason": error.detail})


def start(
    tx: Transaction, waiting: Sequence[Starting], held: Held = NOTHING_HELD
) -> tuple[list[tuple[Starting, Need]], int]:
    """Start the children of waits of one step, or of one run in its ending. Returns those that lack
    something, and how many ended because their children cannot start.
    """
    if isinstance(waiting[0], EndingRun):
        need = run_endings.start(tx, waiting[0], held)
        if need is not None:
            waits.leave_to_storage(tx, replace(waiting[0].wait, needs_storage=False))
        return ([] if need is None else [(waiting[0], need)]), 0
    left = child_starts.start(tx, [each for each in waiting if isinstance(each, Waiting)], held)
    failing = [(each, _unstarted(tx, each, why)) for each, why in left if isinstance(why, Failure)]
    lacking: list[tuple[Starting, Need]] = [(each, why) for each, why in left if not isinstance(why, Failure)]
    for each, _ in lacking:
        # To start a child takes the mark away.
        waits.leave_to_storage(tx, replace(each.wait, needs_storage=False))
    run = run_headers.load(tx, waiting[0].wait.run_id) if failing else None
    if run is None:
        return lacking, 0
    touched = TouchedLimits()
    ended = end_waits(tx, run, failing, touched)
    touched.fill(tx)
    return lacking, ended


def _unstarted(tx: Transaction, waiting: Waiting, failure: Failure) -> Fails:
    if waiting.wait.rule is None:
        return Fails(failure)
    return error_runs.not_started(tx, waiting, failure)


def follow(tx: Transaction, keys: Sequence[Key]) -> int:
    """Look at waits right after something happened; what needs storage is left to the look at what is due.
    Returns how many ended.
    """
    looked = look_at(tx, keys)
    if not tx.is_deep:
        for some in of_one_step(looked.starting[:MOST_STARTS]):
            tx.afterwards(functools.partial(_start_afterwards, waiting=some))
    return looked.ended


def look_for_children(
    tx: Transaction,
    run_id: UUID,
    *,
    at_once: bool = False,
    before: Collection[Key] = (),
    rounds: int = MOST_ROUNDS,
) -> int:
    """Look at all waits of a run for children that have ended. Returns how many ended.

    Children of a map end one by one; their waits end together, and as many others begin together. So a few
    that have ended are left while many others are open (`waits.are_enough`). And one process looks for the
    children of a run at a time: others leave theirs to it, because it looks again after its commit. What
    nobody takes is due.

    Args:
        at_once: whether to look however few have ended: one that cannot be left is among them.
        before: what the last look found. The same again is left to the look at what is due.
        rounds: how often it looks again; then the process has other things to do.
    """
    if not advisory_locks.try_named_until_commit(tx, advisory_locks.CHILDREN, str(run_id)):
        return 0
    # By a statement after the lock: it sees what the last holder left.
    are_open, ended = waits.for_children(tx, run_id)
    keys = [(run_id, each) for each in ended[:STARTED_TOGETHER]]
    if not keys or set(keys) == set(before) or not (at_once or waits.are_enough(len(ended), are_open)):
        return 0
    done = follow(tx, keys)
    if rounds and not tx.is_deep:
        again = functools.partial(look_for_children, run_id=run_id, before=keys, rounds=rounds - 1)
        tx.afterwards(again)
    return done


def _start_afterwards(tx: Transaction, waiting: Sequence[Starting]) -> None:
    start(tx, waiting)


def look_at(tx: Transaction, keys: Sequence[Key], held: Held = NOTHING_HELD) -> Looked:
    """Look at waits, and end those that are over, in the caller's transaction.

    Args:
        keys: of any runs.
        held: what was loaded and stored before the transaction.
    """
    looked, touched = Looked(), TouchedLimits()
    for each in find_endings(tx, {run_id for run_id, task_run_id in keys if run_id == task_run_id}):
        if run_endings.look(tx, each):
            looked.starting.append(each)
    all_waiting = waits.find(tx, keys)
    lock_keys(tx, all_waiting)
    for run_id, waiting in groupby(all_waiting, lambda each: each.wait.run_id):
        run = run_headers.load(tx, run_id)
        if run is not None:
            _look_at_run(tx, run, list(waiting), held, looked, touched)
    # Once, after all runs: rows of limits are locked last.
    touched.fill(tx)
    return looked


def lock_keys(tx: Transaction, waiting: Iterable[Waiting]) -> None:
    """Lock the idempotency keys under which suspended calls execute, before any other row."""
    names: dict[str, set[Name]] = defaultdict(set)
    for each in waiting:
        if each.is_open and each.task_run.idempotency_key is not None:
            names[each.wait.tenant].add((each.task_run.task_id, each.task_run.idempotency_key))
    for tenant in sorted(names):
        key_waiters.lock(tx, tenant, names[tenant])


def _look_at_run(
    tx: Transaction,
    run: RunHeader,
    waiting: Sequence[Waiting],
    held: Held,
    looked: Looked,
    touched: TouchedLimits,
) -> None:
    is_open = [each for each in waiting if each.is_open]
    endings = _endings(tx, run, is_open, held)
    ready: list[tuple[Waiting, Completes | Fails]] = []
    for each, end in endings:
        match end:
            case Starts():
                looked.starting.append(each)
            case Completes() | Fails():
                ready.append((each, end))
            case Signal() | Paths() | TooLarge():
                looked.lacking.append(((run.id, each.task_run.id), end))
            case Later() | GoesOn():
                pass
    if ready:
        looked.ended += end_waits(tx, run, ready, touched)
    elif all(isinstance(end, Later) for _, end in endings):
        # Before a wait of the run is locked: the row of the run comes first.
        quiet.mark(tx, run)
    for each, end in endings:
        if isinstance(end, Later):
            waits.postpone(tx, each.wait, end.due_at)
        elif isinstance(end, Signal | Paths | TooLarge):
            waits.leave_to_storage(tx, each.wait)
        elif isinstance(end, GoesOn) and waits.go_on(tx, each.wait, end.data, end.due_at):
            lines.child_goes_on(tx, run, each, end)
            _start_next(looked, each, end, tx.now)
    for each in waiting:
        if not each.is_open:
            waits.forget(tx, each.wait)


def _start_next(looked: Looked, waiting: Waiting, end: GoesOn, now: datetime) -> None:
    if end.due_at <= now:
        wait = replace(waiting.wait, data=end.data, due_at=end.due_at, needs_storage=False)
        looked.starting.append(replace(waiting, wait=wait))


def _endings(
    tx: Transaction, run: RunHeader, waiting: Sequence[Waiting], held: Held
) -> list[tuple[Waiting, Ending | Need]]:
    approvals = [each.wait for each in waiting if each.wait.kind == APPROVAL]
    others = [each.wait for each in waiting if each.wait.kind not in (APPROVAL, CHILD)]
    came = signals.untaken(tx, others, 1) | signals.untaken(tx, approvals, signals.MAX_UNTAKEN)
    endings = [
        (each, _with_payload(decide(each.wait, came.get(each.task_run.id, ()), tx.now), held))
        for each in waiting
        if each.wait.kind != CHILD
    ]
    of_children = [each for each in waiting if each.wait.kind == CHILD]
    return sorted(
        [*endings, *children.endings(tx, run, of_children, held)], key=lambda each: each[0].task_run.id
    )


def _with_payload(end: Ending, held: Held) -> Ending | Need:
    """The ending, with a payload of storage; the signal itself if that is not held."""
    if not isinstance(end, Completes) or end.stored is None:
        return end
    kept = held.kept.get(end.stored.id)
    return end.stored if kept is None else replace(end, kept=kept)


def end_waits(
    tx: Transaction,
    run: RunHeader,
    endings: Sequence[tuple[Waiting, Ending]],
    touched: TouchedLimits,
) -> int:
    """End waits of one run, as it was decided, and let the run go on. Returns how many ended by it. The
    caller has locked their keys (`lock_keys`).
    """
    if not quiet.wake(tx, run):
        # The run has ended, and its waits with it.
        for each, _ in endings:
            waits.forget(tx, each.wait)
        return 0
    advance = Advance(
        tx, run, queue=endings[0][0].task_run.queue, counting=Counting.UNCOUNTED, touched=touched
    )
    together, others = _apart(endings)
    ended = _complete(tx, advance, together)
    for each, end in others:
        # Each by itself: under fail-fast the first failure ends the run, and all other waits.
        ended += 0 if advance.ended else _end(tx, advance, each, end)
    return ended


def _apart(
    endings: Sequence[tuple[Waiting, Ending]],
) -> tuple[list[tuple[Waiting, Completes]], list[tuple[Waiting, Ending]]]:
    """Waits that end together, and those that end one after the other: of those that take the same signal,
    the first one gets it, and a failure may end the run.
    """
    together: list[tuple[Waiting, Completes]] = []
    others: list[tuple[Waiting, Ending]] = []
    for each, end in endings:
        if isinstance(end, Completes) and not end.signals:
            together.append((each, end))
        else:
            others.append((each, end))
    return together, others


def _end(tx: Transaction, advance: Advance, waiting: Waiting, end: Ending) -> int:
    """End one wait. Returns 1 if it ended by it: not where it was over, or its task run goes on waiting."""
    wait = waiting.wait
    match end:
        case Completes():
            return _complete(tx, advance, [(waiting, end)]) if signals.lock(tx, wait, end.signals) else 0
        case Fails():
            if not signals.lock(tx, wait, end.signals):
                return 0
            # Only calls that have suspended themselves are retried.
            cap_ms = wait.data.get("maxRetryDelayMs")
            failed = advance.fail([(waiting.task_run, end.failure)], max_retry_delay_ms=cap_ms)
            if wait.kind == POLL and (failed.final or failed.retried or failed.handled):
                lines.poll_failed(tx, advance.run, waiting, end.failure, is_final=bool(failed.final))
            if failed.handled:
                waits.take_signals(tx, wait, end.signals)
            elif failed.final or failed.retried:
                waits.end_failed(tx, wait, end.signals)
            else:
                return 0
            advance.settle(failed.final, _chosen(advance.run, waiting))
            return 1
        case Later() | GoesOn() | Starts():
            return 0


def _complete(tx: Transaction, advance: Advance, over: Sequence[tuple[Waiting, Completes]]) -> int:
    """Complete the task runs of waits whose signals are locked. Returns how many."""
    if not over:
        return 0
    chosen: dict[int, Sequence[str]] = {}
    for each, _ in over:
        chosen |= _chosen(advance.run, each)
    ended = {each.task_run.id: _ended_well(each, end, chosen) for each, end in over}
    done = waits.complete(tx, advance.run, list(ended.values()))
    waiting = {each.task_run.id: each for each, _ in over}
    for task_run in done:
        lines.child_succeeded(tx, advance.run, waiting[task_run.id])
        if ended[task_run.id].wait.rule is None:
            _settle_key(tx, advance, task_run, ended[task_run.id].output)
    if done:
        advance.settle(done, chosen)
    return len(done)


def _chosen(run: RunHeader, waiting: Waiting) -> dict[int, Sequence[str]]:
    """The ids of the successors that the step of a wait selects, by its ordinal; nothing where it selects
    all.
    """
    chosen = error_runs.chosen(run, waiting)
    return {} if chosen is None else {waiting.task_run.ordinal: chosen}


def _ended_well(waiting: Waiting, end: Completes, chosen: Mapping[int, Sequence[str]]) -> EndedWell:
    return EndedWell(
        waiting.wait,
        end.kept or keep_inline(end.output),
        end.cause,
        end.by,
        end.signals,
        end.came_at,
        chosen.get(waiting.task_run.ordinal),
    )


def _settle_key(tx: Transaction, advance: Advance, task_run: TaskRun, kept: KeptValue) -> None:
    """Let others reuse the result of a suspended call that executed under an idempotency key."""
    if task_run.idempotency_key is not None:
        completion = Completion(task_run, kept, key=task_run.idempotency_key)
        idempotency.settle(tx, advance.run, [completion], [task_run], set(), advance.touched)


# --- who looks --------------------------------------------------------------------------------------------

_FOR_SIGNAL = """
SELECT w.run_id, w.task_run_id FROM waits AS w
WHERE w.root_run_id = :root AND CAST(:name AS text) = ANY(w.names) ORDER BY w.created_at, w.task_run_id
LIMIT :most
"""
# Waits for one signal that are looked at together; each signal ends one of them.
MOST_FOR_A_SIGNAL = 100


def look_for_signal(tx: Transaction, root: UUID, name: str) -> int:
    """Look at the waits that a signal may end. Returns how many ended."""
    parameters = {"root": root, "name": name, "most": MOST_FOR_A_SIGNAL}
    keys = [(row.run_id, row.task_run_id) for row in tx.execute(_FOR_SIGNAL, parameters)]
    return follow(tx, keys)
