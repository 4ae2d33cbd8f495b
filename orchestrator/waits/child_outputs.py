"""Finds the outputs of child runs, and reads no storage: what is there must be held (held.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.engine import referred_values
from pipeweave.orchestrator.engine.referred_values import NotLoaded
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.pipelines import StoredPipeline
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import canonical, keep_inline
from pipeweave.orchestrator.waits.held import Held, TooLarge
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import run_output, show_path
from pipeweave.spec.references import compile_value

# The run lists tell PostgreSQL which partitions to leave out; the rest is as in state/named_rows.py.
_OF_ONE_STEP = """
SELECT t.run_id, CAST(t.output AS text) AS output, t.output_path, t.output_size, t.output_hash
FROM unnest(CAST(:runs AS uuid[]), CAST(:ids AS uuid[])) AS g(run_id, id)
    JOIN task_runs AS t ON t.run_id = ANY(CAST(:runs AS uuid[])) AND t.run_id = g.run_id AND t.id = g.id
        AND (g.id = g.id) IS TRUE
WHERE t.status = 'completed'
"""


@dataclass(frozen=True, slots=True)
class ChildVersion:
    """A run, and what it runs.

    Args:
        pipeline: with the body that it runs, if it runs one.
    """

    id: UUID
    pipeline: StoredPipeline

    @property
    def only(self) -> UUID | None:
        """The task run whose output is that of the run; None where it is made of others."""
        template = self.pipeline.output_template
        references = compile_value(template).references
        only = references[0].step if len(references) == 1 else None
        if only is None or template != show_path("steps", (only,)):
            return None
        ordinal = self.pipeline.plan.ordinals[only]
        has_items = self.pipeline.plan[ordinal].step.has_items
        return None if has_items else ids.task_run_id(self.id, ordinal)


def version_of(tx: Transaction, tenant: str, row: Any) -> ChildVersion:
    """What a run runs.

    Args:
        row: of the run: {id, pipeline_id, pipeline_version, body}.
    """
    stored = pipelines.get(tx, tenant, row.pipeline_id, row.pipeline_version).of_body(row.body)
    return ChildVersion(row.id, stored)


def outputs_of_one_step(tx: Transaction, children: Sequence[ChildVersion]) -> dict[UUID, KeptValue]:
    """The outputs of those of several runs that have the output of one step, where they are, by run: one
    statement reads all of them.
    """
    only = {each.id: each.only for each in children if each.only is not None}
    if not only:
        return {}
    rows = tx.execute(_OF_ONE_STEP, {"runs": list(only), "ids": list(only.values())}).all()
    return dict.fromkeys(only, keep_inline(None)) | {row.run_id: _kept(row) for row in rows}


def _kept(row: Any) -> KeptValue:
    if row.output is None and row.output_path is None:
        return keep_inline(None)
    return KeptValue(row.output, row.output_path, row.output_size, row.output_hash)


def output_of_child(tx: Transaction, child_id: UUID, held: Held) -> KeptValue | TooLarge:
    """The output of a run: that of one step stays where it is, without being read.

    Raises:
        NotLoaded: it is made of values in storage that are not held.
    """
    child = run_headers.load(tx, child_id)
    assert child is not None and child.pipeline_id is not None
    stored = pipelines.get(tx, child.tenant, child.pipeline_id, child.pipeline_version).of_body(child.body)
    of_one_step = outputs_of_one_step(tx, [ChildVersion(child_id, stored)])
    if child_id in of_one_step:
        return of_one_step[child_id]
    kept = held.kept.get(child.id)
    if kept is not None:
        return kept
    wanted = Wanted.of(compile_value(stored.output_template).references)
    scope = referred_values.find(tx, child, wanted, held.loaded).scope(wanted)
    value = run_output(stored.output_template, input=scope["input"], steps=scope["steps"])
    return TooLarge(child.id, value) if len(canonical(value)) > INLINE_BYTES else keep_inline(value)


def place_of(output: KeptValue) -> dict[str, Any]:
    """Where an output is, as the data of a wait has it."""
    if output.path is not None:
        return {"path": output.path}
    return {"value": orjson.loads(output.inline or "null")}


def value_of(output: KeptValue, held: Held) -> Any:
    """The value of an output. Raises NotLoaded if it is in storage and not held."""
    return value_at(place_of(output), held)


def value_at(place: Mapping[str, Any], held: Held) -> Any:
    """The value at a place that `place_of` gave; null without a place. Raises NotLoaded like `value_of`."""
    if "path" not in place:
        return place.get("value")
    if place["path"] not in held.loaded:
        raise NotLoaded([place["path"]])
    value = held.loaded[place["path"]]
    if isinstance(value, PipeWeaveError):
        raise value
    return value
