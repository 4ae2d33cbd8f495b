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

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import CorruptValue, InvalidSetting, NotFound, ObjectTooLarge, Unavailable
from pipeweave.orchestrator.domain.facts import Name
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Completion, KeptValue, TaskRun
from pipeweave.orchestrator.domain.waits import APPROVAL, Signal
from pipeweave.orchestrator.engine import idempotency, key_waiters
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.state import run_headers, signals, waits
from pipeweave.orchestrator.state.waits import Waiting
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values, keep_inline
from pipeweave.orchestrator.waits import quiet
from pipeweave.orchestrator.waits.ending import Completes, Ending, Fails, Later, decide, output_of

log = logging.getLogger(__name__)

# A wait by its run and its task run.
Key = tuple[UUID, UUID]
# Outputs that were stored before the transaction, by the signal whose payload they have.
Stored = Mapping[UUID, KeptValue]
NOTHING_STORED: Stored = {}


@dataclass(slots=True)
class Looked:
    """What a look found.

    Args:
        ended: the waits that it ended.
        unstored: signals that end a wait, and whose payloads are in storage: their waits are left.
    """

    ended: int = 0
    unstored: list[tuple[Key, Signal]] = field(default_factory=list)


def look(database: Database, values: Values, keys: Sequence[Key]) -> int:
    """Look at waits, and end those that are over. Returns how many it ended.

    A payload in storage is loaded between two transactions. While storage is away, its wait stays.

    Raises:
        Unavailable: PostgreSQL did not answer.
    """
    looked = database.run(lambda tx: look_at(tx, keys))
    ended = looked.ended
    for key, signal in looked.unstored:
        try:
            stored = {signal.id: _store(values, signal)}
        except (Unavailable, InvalidSetting) as error:
            log.warning("wait.delayed", extra={"task_run_id": _shown(key), "reason": error.detail})
            continue
        ended += database.run(lambda tx, key=key, stored=stored: look_at(tx, [key], stored)).ended  # type: ignore[misc]
    return ended


def _store(values: Values, signal: Signal) -> KeptValue:
    try:
        payload = values.load(None, signal.payload_path)
    except (NotFound, ObjectTooLarge, CorruptValue) as error:
        log.warning("signal.payload_lost", extra={"reason": error.detail, "signal": signal.name})
        payload = None
    return values.keep(output_of(signal, payload))


def _shown(key: Key) -> str:
    return ids.show(ids.TASK_RUN, key[1])


def look_at(tx: Transaction, keys: Sequence[Key], stored: Stored = NOTHING_STORED) -> Looked:
    """As `look`, in the caller's transaction.

    Args:
        keys: of any runs.
    """
    looked, touched = Looked(), TouchedLimits()
    all_waiting = waits.find(tx, keys)
    lock_keys(tx, all_waiting)
    for run_id, waiting in groupby(all_waiting, lambda each: each.wait.run_id):
        run = run_headers.load(tx, run_id)
        if run is not None:
            _look_at_run(tx, run, list(waiting), stored, looked, touched)
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
    stored: Stored,
    looked: Looked,
    touched: TouchedLimits,
) -> None:
    is_open = [each for each in waiting if each.is_open]
    endings = _endings(tx, is_open)
    ready: list[tuple[Waiting, Ending]] = []
    for each, end in endings:
        if isinstance(end, Completes) and end.stored is not None:
            if end.stored.id not in stored:
                looked.unstored.append(((run.id, each.task_run.id), end.stored))
                continue
            end = replace(end, kept=stored[end.stored.id])
        if not isinstance(end, Later):
            ready.append((each, end))
    if ready:
        looked.ended += end_waits(tx, run, ready, touched)
    elif all(isinstance(end, Later) for _, end in endings):
        # Before a wait of the run is locked: the row of the run comes first.
        quiet.mark(tx, run)
    for each, end in endings:
        if isinstance(end, Later):
            waits.postpone(tx, each.wait, end.due_at)
    for each in waiting:
        if not each.is_open:
            waits.forget(tx, each.wait)


def _endings(tx: Transaction, waiting: Sequence[Waiting]) -> list[tuple[Waiting, Ending]]:
    approvals = [each.wait for each in waiting if each.wait.kind == APPROVAL]
    others = [each.wait for each in waiting if each.wait.kind != APPROVAL]
    came = signals.untaken(tx, others, 1) | signals.untaken(tx, approvals, signals.MAX_UNTAKEN)
    return [(each, decide(each.wait, came.get(each.task_run.id, ()), tx.now)) for each in waiting]


def end_waits(
    tx: Transaction,
    run: RunHeader,
    endings: Sequence[tuple[Waiting, Ending]],
    touched: TouchedLimits,
) -> int:
    """End waits of one run, as it was decided, and let the run go on. Returns how many ended by it. The
    caller has locked their keys (`lock_keys`).
    """
    if not quiet.wake(tx, run.id):
        # The run has ended, and its waits with it.
        for each, _ in endings:
            waits.forget(tx, each.wait)
        return 0
    advance = Advance(
        tx, run, queue=endings[0][0].task_run.queue, counting=Counting.UNCOUNTED, touched=touched
    )
    ended = 0
    for each, end in endings:
        # Each by itself: under fail-fast the first failure ends the run, and all other waits.
        final = None if advance.ended else _end(tx, advance, each, end)
        if final is not None:
            advance.settle(final)
            ended += 1
    return ended


def _end(tx: Transaction, advance: Advance, waiting: Waiting, end: Ending) -> Sequence[TaskRun] | None:
    """End one wait.

    Returns:
        The task runs that are final by it, none where another attempt follows; None when the wait was over.
    """
    wait = waiting.wait
    match end:
        case Completes():
            if not signals.lock(tx, wait, end.signals):
                return None
            kept = end.kept or keep_inline(end.output)
            done = waits.complete(tx, wait, kept, cause=end.cause, by=end.by, signals=end.signals)
            if done is None:
                return None
            _settle_key(tx, advance, waiting.task_run, kept)
            return [done]
        case Fails():
            if not signals.lock(tx, wait, end.signals):
                return None
            # Only calls that have suspended themselves are retried.
            cap_ms = wait.data.get("maxRetryDelayMs")
            failed = advance.fail([(waiting.task_run, end.failure)], max_retry_delay_ms=cap_ms)
            if not failed.final and not failed.retried:
                return None
            waits.end_failed(tx, wait, end.signals)
            return failed.final
        case Later():
            return None


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
    return look_at(tx, keys).ended
