"""Answers with the ledger of a run: what its duration was spent on, along its critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from pipeweave.orchestrator.documents.run_times import LedgerAnswer, LedgerStep, LedgerSum
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.orchestrator.timeline import reading
from pipeweave.orchestrator.timeline.critical_path import PathStep
from pipeweave.orchestrator.timeline.inside import whole
from pipeweave.orchestrator.timeline.ledger import Sum, causes, sums
from pipeweave.orchestrator.timeline.spans import PathPart, PhaseKind, RunTimes
from pipeweave.orchestrator.timeline.words import label, listed, sentence

# Steps of the critical path that are listed: those that took the longest.
STEPS_SHOWN = 100

_LIMITS = """
SELECT k.id, k.concurrency FROM tasks AS k
WHERE k.tenant_id = :tenant AND k.id = ANY(CAST(:ids AS text[])) AND k.concurrency > 0
"""


def ledger(tx: Transaction, tenant: str, id: UUID) -> Document:
    """The ledger of a run, open or final. The sums add up to the total.

    Args:
        tx: a transaction of `Database.reading`; it becomes one snapshot.

    Raises:
        NotFound: the tenant has no such run, or its month was dropped.
    """
    run = reading.run_row(tx, tenant, id)
    times, path, run_parts = whole(tx, tenant, run)
    summed = sums(run_parts)
    limits = _limits(tx, tenant, summed)
    shown = [_sum(each, limits) for each in summed]
    return LedgerAnswer.of(
        run,
        run_id=run.id,
        is_open=times.is_open,
        total_ms=ms(times.end),
        sums=shown,
        steps=_steps(times, path, run_parts, limits),
        path_length=len(path),
        text=sentence(ms(times.end), shown),
    )


def ms(microseconds: int) -> float:
    """Milliseconds with three decimals: exact."""
    return microseconds / 1000


def _limits(tx: Transaction, tenant: str, summed: Sequence[Sum]) -> Mapping[str, int]:
    tasks = [each.task_id for each in summed if each.task_id is not None]
    if not tasks:
        return {}
    return {row.id: row.concurrency for row in tx.execute(_LIMITS, {"tenant": tenant, "ids": tasks})}


def _sum(kind_sum: Sum, limits: Mapping[str, int]) -> Document:
    limit = limits.get(kind_sum.task_id or "")
    return LedgerSum.of(
        kind_sum,
        kind=kind_sum.kind.value,
        label=label(kind_sum.kind, kind_sum.task_id, limit, kind_sum.waits_for),
        limit=limit,
        ms=ms(kind_sum.length),
    )


# A kind of work or wait, with the task, and the people, signals or pipeline, that it is told of by name.
_Cause = tuple[PhaseKind, str | None, str | None]


# --- the steps of the path --------------------------------------------------------------------------------


def _steps(
    times: RunTimes, path: Sequence[PathStep], run_parts: Sequence[PathPart], limits: Mapping[str, int]
) -> list[Document]:
    """The steps of the path that took the longest, in their order: each with what it did and waited for."""
    lengths: dict[str, dict[_Cause, int]] = {}
    for part in run_parts:
        if part.times is not None:
            of_step, cause = lengths.setdefault(part.times.step_id, {}), (part.span.kind, *causes(part))
            of_step[cause] = of_step.get(cause, 0) + part.length
    longest = sorted(path, key=lambda each: (each.begin - each.end, each.ordinal))[:STEPS_SHOWN]
    in_order = sorted(longest, key=lambda each: (each.begin, each.end))
    return [
        _step(times, each.ordinal, lengths.get(times.steps[each.ordinal].step_id, {}), limits)
        for each in in_order
    ]


def _step(
    times: RunTimes, ordinal: int, lengths: Mapping[_Cause, int], limits: Mapping[str, int]
) -> Document:
    row, item = times.steps[ordinal], times.last_items.get(ordinal)
    longest = sorted(lengths.items(), key=lambda each: (-each[1], each[0][0]))
    sums = [
        {"label": label(kind, task, limits.get(task or ""), waits_for), "ms": ms(length)}
        for (kind, task, waits_for), length in longest
        if length
    ]
    kinds: dict[str, int] = {}
    for (kind, *_), length in longest:
        kinds[kind.value] = kinds.get(kind.value, 0) + length
    return LedgerStep.of(
        row,
        # Where an item is named, its end is told: that of its map may be the end of the run.
        status=row.status if item is None else item.status,
        ms=ms(sum(lengths.values())),
        map_index=None if item is None else item.map_index,
        kinds={kind: ms(length) for kind, length in kinds.items() if length},
        text=listed(sums),
    )
