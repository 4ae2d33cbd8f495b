"""Finds files that a step may read: assets of steps before it, and uploads that its run has claimed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.size_limits import MAX_ASSETS
from pipeweave.spec import WITH_ITEMS

_ASSETS = f"""
SELECT t.step_id, t.kind, t.map_first, t.map_count, t.assets -> CAST(:key AS text) AS asset
FROM {NAMED} JOIN task_runs AS t ON {by_key()}
WHERE t.status = 'completed' AND ({kind_sql.HAS_ITEMS} OR t.assets -> CAST(:key AS text) IS NOT NULL)
"""


def asset(tx: Transaction, run: RunHeader, step_id: str, key: str) -> Mapping[str, Any] | None:
    """The asset with this key of the steps before a step: {path, size, type}, the path a reference.

    Of several, the one of a direct predecessor, else of the ancestor that comes last in the document; of the
    items of a map, the last item's.
    """
    nearest = nearest_first(run, step_id)
    wanted = sorted(ids.task_run_id(run.id, run.plan.ordinals[each]) for each in nearest)
    parameters = {"run_id": run.id, "ids": wanted, "key": key}
    rows = {row.step_id: row for row in tx.execute(_ASSETS, parameters)}
    for each in nearest:
        row = rows.get(each)
        file: Mapping[str, Any] | None = None if row is None else row.asset or _of_items(tx, run, row, key)
        if file is not None:
            return file
    return None


def nearest_first(run: RunHeader, step_id: str) -> list[str]:
    """The ancestors of a step: its direct predecessors, then the others, each kind from the last one on."""
    plan = run.plan
    direct = [plan[each].id for each in sorted(plan[plan.ordinals[step_id]].predecessors, reverse=True)]
    known = set(direct)
    return direct + [each for each in reversed(plan.ancestors(step_id)) if each not in known]


_OF_ITEMS = """
SELECT t.assets -> CAST(:key AS text) AS asset FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.status = 'completed'
    AND t.assets -> CAST(:key AS text) IS NOT NULL
ORDER BY t.id DESC LIMIT 1
"""


def _of_items(tx: Transaction, run: RunHeader, row: Any, key: str) -> Mapping[str, Any] | None:
    if row.kind not in WITH_ITEMS or not row.map_count:
        return None
    parameters = {**_span(run, row), "key": key}
    file: Mapping[str, Any] | None = tx.execute(_OF_ITEMS, parameters).scalar_one_or_none()
    return file


_ALL_OF_ITEMS = """
SELECT DISTINCT ON (f.key) f.key, f.value FROM task_runs AS t CROSS JOIN LATERAL jsonb_each(t.assets) AS f
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.status = 'completed'
    AND t.assets IS NOT NULL
ORDER BY f.key, t.id DESC LIMIT :most
"""


def assets_of(tx: Transaction, run: RunHeader, row: Any) -> Mapping[str, Any]:
    """The assets of a completed step by key; of a map, those of its items, MAX_ASSETS of them.

    Args:
        row: of the step, with `kind`, `assets`, `map_first` and `map_count`.
    """
    if row.kind not in WITH_ITEMS:
        return row.assets or {}
    if not row.map_count:
        return {}
    span = _span(run, row)
    return {each.key: each.value for each in tx.execute(_ALL_OF_ITEMS, {**span, "most": MAX_ASSETS})}


def _span(run: RunHeader, row: Any) -> dict[str, Any]:
    """The items of a map."""
    return {
        "run_id": run.id,
        "first": ids.task_run_id(run.id, row.map_first),
        "last": ids.task_run_id(run.id, row.map_first + row.map_count - 1),
    }


_UPLOAD = """
SELECT u.storage_path, u.filename, u.mime_type, u.size_bytes
FROM upload_claims AS c JOIN temp_uploads AS u ON u.id = c.upload_id
WHERE c.run_id = :run_id AND c.upload_id = :id AND u.deleted_at IS NULL
"""


def upload(tx: Transaction, run: RunHeader, upload_id: UUID) -> Any | None:
    """The row of an upload that a run has claimed; None if it has not."""
    return tx.execute(_UPLOAD, {"run_id": run.id, "id": upload_id}).one_or_none()
