"""Rebuilds what a run was at one of its events, for people who step through its history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import takewhile
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import LimitExceeded
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.documents.run_questions import RunAt, StepAt
from pipeweave.orchestrator.domain import replay
from pipeweave.orchestrator.domain.replay import RebuiltRun
from pipeweave.orchestrator.reading import enqueued_runs
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# Events that one request applies.
MOST_EVENTS = 20_000

_RUN = """
SELECT r.tenant_id, r.pipeline_id, r.pipeline_version, r.body, (
    SELECT count(*) FROM (
        SELECT 1 FROM events AS e WHERE e.run_id = r.id AND e.seq <= :seq LIMIT :most) AS e) AS events
FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""
_AT = "SELECT e.at FROM events AS e WHERE e.run_id = :id AND e.seq <= :seq ORDER BY e.seq DESC LIMIT 1"


def rebuilt_at(tx: Transaction, tenant: str, id: UUID, seq: int) -> Document:
    """What a run was after its events up to a number; items are counted.

    Raises:
        NotFound: the tenant has no such run.
        LimitExceeded: too many events lie before this one.
    """
    row: Any = tx.execute(
        _RUN, {"id": id, "tenant": tenant, "seq": seq, "most": MOST_EVENTS + 1}
    ).one_or_none()
    if row is None:
        raise enqueued_runs.missing(tx, tenant, id)
    if row.events > MOST_EVENTS:
        raise LimitExceeded(
            f"more than {MOST_EVENTS:,} events lie before this one", hint="choose an earlier event"
        )
    stored = pipelines.of_run(tx, row)
    names = [each.id for each in stored.plan.steps]
    run = replay.rebuild(takewhile(lambda event: event.seq <= seq, verify.events(tx, id)))
    return RunAt.of(
        run,
        run_id=id,
        seq=seq,
        at=tx.execute(_AT, {"id": id, "seq": seq}).scalar_one_or_none(),
        events=row.events,
        edited_params=list(run.edited_params),
        other_input=list(run.other_input),
        counts=dict(Counter(each.status.value for each in run.task_runs.values())),
        steps=_steps(id, names, run),
    )


def _steps(id: UUID, names: list[str], run: RebuiltRun) -> list[Document]:
    items = _items(run)
    shown = ((number, name, run.task_runs.get(number)) for number, name in enumerate(names, 1))
    return [
        StepAt.of(each, id=name, task_run_id=ids.task_run_id(id, number), items=items.get(number))
        for number, name, each in shown
        if each
    ]


def _items(run: RebuiltRun) -> Mapping[int, Mapping[str, int]]:
    """Ordinal of a map -> its items by status."""
    sums: dict[int, Counter[str]] = defaultdict(Counter)
    for number, each in run.task_runs.items():
        if each.map_first is not None and each.map_count:
            for item in range(each.map_first, each.map_first + each.map_count):
                if (of_item := run.task_runs.get(item)) is not None:
                    sums[number][of_item.status.value] += 1
    return sums
