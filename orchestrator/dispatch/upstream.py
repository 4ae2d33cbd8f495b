"""Finds the outputs and assets of the steps before a step, for the worker that runs it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.places import Place
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.state import files, outputs
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import WITH_ITEMS

# A dispatch names so many steps; the others come by the page.
MOST_REFERENCES = 1_000


@dataclass(frozen=True, slots=True)
class UpstreamStep:
    """A completed step before a step.

    Args:
        place: of its output; of a map, the places of its items' outputs.
        assets: key -> {path, size, type}; the path is a reference. Of a map, those of its items.
    """

    step_id: str
    place: Place | list[Place]
    assets: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UpstreamPage:
    """Some of the completed steps before a step.

    Args:
        next: where the next page begins; None when there is none.
    """

    steps: Sequence[UpstreamStep]
    next: int | None


_STEPS = f"""
SELECT t.step_id, t.kind, t.assets, t.output, t.output_path, t.map_first, t.map_count FROM {NAMED}
    JOIN task_runs AS t ON {by_key()}
WHERE t.status = 'completed' ORDER BY t.id
"""


def page(tx: Transaction, run: RunHeader, step_id: str, start: int = 0) -> UpstreamPage:
    """The completed steps before a step, MOST_REFERENCES of them, from a place on.

    The first page has the direct predecessors, and further ancestors as long as there is room. The direct
    predecessors come last: the assets of a later step win where two have the same key.
    """
    ordered = files.nearest_first(run, step_id)
    chosen = ordered[start : start + MOST_REFERENCES]
    completed = _completed(tx, run, chosen)
    steps = [completed[each] for each in reversed(chosen) if each in completed]
    end = start + len(chosen)
    return UpstreamPage(steps, end if end < len(ordered) else None)


def _completed(tx: Transaction, run: RunHeader, step_ids: Sequence[str]) -> dict[str, UpstreamStep]:
    if not step_ids:
        return {}
    wanted = [ids.task_run_id(run.id, run.plan.ordinals[each]) for each in step_ids]
    rows: list[Any] = tx.execute(_STEPS, {"run_id": run.id, "ids": wanted}).all()
    maps = [row.step_id for row in rows if row.kind in WITH_ITEMS]
    lists = outputs.places_of_steps(tx, run, maps) if maps else {}
    return {
        row.step_id: UpstreamStep(
            row.step_id, lists.get(row.step_id, (row.output, row.output_path)), files.assets_of(tx, run, row)
        )
        for row in rows
    }
