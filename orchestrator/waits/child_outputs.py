"""Finds the outputs of child runs, and reads no storage: what is there must be held (held.py)."""

from __future__ import annotations

from collections.abc import Mapping
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
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import canonical, keep_inline
from pipeweave.orchestrator.waits.held import Held, TooLarge
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import run_output, show_path
from pipeweave.spec.references import compile_value

_OF_ONE_STEP = """
SELECT CAST(t.output AS text) AS output, t.output_path, t.output_size, t.output_hash FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = :id AND t.status = 'completed'
"""


def output_of_child(tx: Transaction, child_id: UUID, held: Held) -> KeptValue | TooLarge:
    """The output of a run: that of one step stays where it is, without being read.

    Raises:
        NotLoaded: it is made of values in storage that are not held.
    """
    child = run_headers.load(tx, child_id)
    assert child is not None and child.pipeline_id is not None
    stored = pipelines.get(tx, child.tenant, child.pipeline_id, child.pipeline_version).of_body(child.body)
    template = stored.output_template
    references = compile_value(template).references
    only = references[0].step if len(references) == 1 else None
    if only is not None and template == show_path("steps", (only,)):
        ordinal = child.plan.ordinals[only]
        if not child.plan[ordinal].step.has_items:
            key = {"run_id": child.id, "id": ids.task_run_id(child.id, ordinal)}
            row: Any = tx.execute(_OF_ONE_STEP, key).one_or_none()
            if row is None or (row.output is None and row.output_path is None):
                return keep_inline(None)
            return KeptValue(row.output, row.output_path, row.output_size, row.output_hash)
    kept = held.kept.get(child.id)
    if kept is not None:
        return kept
    wanted = Wanted.of(references)
    scope = referred_values.find(tx, child, wanted, held.loaded).scope(wanted)
    value = run_output(template, input=scope["input"], steps=scope["steps"])
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
