"""Reads the rows of a group of runs, page by page in the order of their keys: each page is a statement of its
own, so that no snapshot stays open while a page is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.export.position import END, Position
from pipeweave.orchestrator.kept.given_hashes import GivenHashes
from pipeweave.orchestrator.reading.task_runs import COLUMNS
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import WITH_ITEMS

# A run that is alone in its group may have a million rows: PostgreSQL reads them in the order of the key. The
# few rows of several runs are sorted.
_ALONE = "{0}.run_id = :run AND {0}.{1} > :after"
_TOGETHER = "{0}.run_id = ANY(CAST(:runs AS uuid[])) AND ({0}.run_id, {0}.{1}) > (:run, :after)"

_TASK_RUNS = f"""
SELECT {COLUMNS}, t.error - 'traceback' AS error, t.item, t.output, t.output_path, t.output_hash,
       t.selected_next, t.idempotency_key, t.cached_from, t.dispatched_at, t.logs_path
FROM task_runs AS t WHERE {{where}} ORDER BY t.run_id, t.id LIMIT :limit
"""
TASK_RUNS_OF_ONE = _TASK_RUNS.format(where=_ALONE.format("t", "id"))
TASK_RUNS_OF_SEVERAL = _TASK_RUNS.format(where=_TOGETHER.format("t", "id"))

_EVENTS = """
SELECT e.run_id, e.seq, e.at, e.type, e.task_run_id, e.attempt, e.data
FROM events AS e WHERE {where} ORDER BY e.run_id, e.seq LIMIT :limit
"""
EVENTS_OF_ONE = _EVENTS.format(where=_ALONE.format("e", "seq"))
EVENTS_OF_SEVERAL = _EVENTS.format(where=_TOGETHER.format("e", "seq"))


def task_runs(tx: Transaction, group: Sequence[Any], position: Position, limit: int) -> Sequence[Any]:
    """The next task runs of these runs."""
    begin = _begin(group, position)
    # The ids of a run's task runs follow its own, which is the number 0 among them.
    after = UUID(int=begin.run.int | min(begin.key, ids.MAX_TASK_RUNS - 1))
    parameters = {**_of(group, begin), "after": after, "limit": limit}
    if len(group) == 1:
        return list(tx.execute(TASK_RUNS_OF_ONE, parameters))
    return list(tx.execute(TASK_RUNS_OF_SEVERAL, parameters))


def events(tx: Transaction, group: Sequence[Any], position: Position, limit: int) -> Sequence[Any]:
    """The next events of these runs."""
    begin = _begin(group, position)
    parameters = {**_of(group, begin), "after": begin.key, "limit": limit}
    if len(group) == 1:
        return list(tx.execute(EVENTS_OF_ONE, parameters))
    return list(tx.execute(EVENTS_OF_SEVERAL, parameters))


def _begin(group: Sequence[Any], position: Position) -> Position:
    """Where the rows of a group begin: at the position, if that is in it."""
    if position.key != END and any(each.id == position.run for each in group):
        return position
    return Position(group[0].id, 0)


def _of(group: Sequence[Any], begin: Position) -> dict[str, Any]:
    return {"run": begin.run} if len(group) == 1 else {"run": begin.run, "runs": [each.id for each in group]}


_ATTEMPTS = """
SELECT a.* FROM unnest(CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[])) AS g(run_id, id)
    JOIN attempts AS a ON a.run_id = g.run_id AND a.task_run_id = g.id
WHERE a.run_id = ANY(CAST(:runs AS uuid[])) ORDER BY a.run_id, a.task_run_id, a.number
"""


def attempts(tx: Transaction, page: Sequence[Any]) -> Mapping[UUID, list[Any]]:
    """The ended attempts of these task runs, oldest first, by task run."""
    asked = [each for each in page if each.attempt > 1 or each.error_code is not None]
    by_task_run: dict[UUID, list[Any]] = {}
    if asked:
        parameters = {
            "run_ids": [each.run_id for each in asked],
            "ids": [each.id for each in asked],
            "runs": sorted({each.run_id for each in asked}),
        }
        for row in tx.execute(_ATTEMPTS, parameters):
            by_task_run.setdefault(row.task_run_id, []).append(row)
    return by_task_run


# --- hashes -----------------------------------------------------------------------------------------------

_OUTPUTS = f"""
SELECT t.run_id, t.step_id, t.output_hash
FROM unnest(CAST(:runs AS uuid[]), CAST(:lasts AS uuid[])) AS g(id, last)
    JOIN task_runs AS t ON t.run_id = g.id AND t.id <= g.last
WHERE t.run_id = ANY(CAST(:runs AS uuid[])) AND t.status = 'completed' AND {kind_sql.IS_STEP}
"""
_MAPS = f"""
SELECT t.run_id, t.step_id,
       encode(sha256(string_agg(decode(t.output_hash, 'hex'), '' ORDER BY t.id)), 'hex') AS hash
FROM task_runs AS t
WHERE t.run_id = ANY(CAST(:runs AS uuid[])) AND {kind_sql.IS_ITEM} AND t.status = 'completed'
GROUP BY t.run_id, t.step_id
"""


@dataclass(slots=True)
class Hashes:
    """Hashes of what the task runs of a group were given, and of the outputs of its maps."""

    tenant: str
    _recorded: dict[UUID, GivenHashes] = field(default_factory=dict)
    _inputs: dict[UUID, str] = field(default_factory=dict)
    _outputs: dict[UUID, dict[str, str | None]] = field(default_factory=dict)

    def load(self, tx: Transaction, group: Sequence[Any]) -> None:
        """Read what is needed for the task runs of these runs, and forget other runs."""
        self._recorded, self._outputs = {}, {each.id: {} for each in group}
        self._inputs = {each.id: each.inputs_hash for each in group}
        lasts: dict[UUID, UUID] = {}
        mapped: list[UUID] = []
        for each in group:
            if each.pipeline_id is None:
                continue
            spec = pipelines.of_run(tx, each).spec
            hashes = self._recorded[each.id] = GivenHashes.of_run(each, spec)
            steps = spec.by_id.values()
            if any(each.has_items or hashes.referenced(each.id, each.kind) for each in steps):
                lasts[each.id] = ids.task_run_id(each.id, len(steps))
            if any(each.has_items for each in steps):
                mapped.append(each.id)
        if lasts:
            for row in tx.execute(_OUTPUTS, {"runs": list(lasts), "lasts": list(lasts.values())}):
                self._outputs[row.run_id][row.step_id] = row.output_hash
        if mapped:
            for row in tx.execute(_MAPS, {"runs": mapped}):
                self._outputs[row.run_id][row.step_id] = row.hash

    def of_input(self, row: Any) -> str | None:
        """The hash of what a task run was given."""
        hashes = self._recorded.get(row.run_id)
        if hashes is None:
            return self._inputs[row.run_id]
        return hashes.of(row.step_id, row.kind, self._outputs[row.run_id], row.item, row.map_index)

    def of_map(self, row: Any) -> str | None:
        """The hash of the output of a completed map; None for any other task run."""
        is_done = row.kind in WITH_ITEMS and row.status == "completed"
        return self._outputs[row.run_id].get(row.step_id) if is_done else None
