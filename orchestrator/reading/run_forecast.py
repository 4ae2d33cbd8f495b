"""Forecasts when an open run ends: what is left of its steps, played over its graph as past runs went."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.run_questions import RunForecast
from pipeweave.orchestrator.domain.states import FINAL_RUN, FINAL_TASK, STATUS_LETTERS
from pipeweave.orchestrator.reading import enqueued_runs, step_columns
from pipeweave.orchestrator.reading.step_durations import past_runs
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import PipelineSpec
from pipeweave.spec.forecast import FEW_RUNS, longest_ms, usual_ms
from pipeweave.spec.graph import Graph

# Past runs are read so often at most, in seconds, however many look at the runs of a pipeline.
FRESH_S = 60.0
_FINAL = frozenset(STATUS_LETTERS[each.value] for each in FINAL_TASK)

_RUN = """
SELECT r.tenant_id, r.pipeline_id, r.pipeline_version, r.body, r.status, r.started_at FROM runs AS r
WHERE r.id = :id AND r.tenant_id = :tenant AND r.pipeline_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Usual:
    """How long the steps of a version usually take.

    Args:
        at: when it was read, by the monotonic clock.
        runs: how many runs it is from.
        steps: step -> how long half of them took (ms); None: not known.
    """

    at: float
    graph: Graph
    runs: int
    steps: Mapping[str, float | None]


# By tenant, pipeline, version and body; "" for the pipeline itself.
USUAL = CacheSpec[tuple[str, str, int, str], Usual]("usual durations of steps", 256)


def run_forecast(tx: Transaction, tenant: str, id: UUID) -> Document:
    """When a run will probably end.

    Waits for workers and limits are not in it, and a step that takes longer than usual ends at once.

    Raises:
        NotFound: the tenant has no such run.
    """
    run: Any = tx.execute(_RUN, {"id": id, "tenant": tenant}).one_or_none()
    if run is None:
        raise enqueued_runs.missing(tx, tenant, id)
    unknown = RunForecast.of(
        run, id=id, runs=0, too_few_runs=True, left_ms=None, ends_at=None, unknown_steps=0
    )
    if run.status in FINAL_RUN or run.started_at is None:
        return unknown
    spec = pipelines.of_run(tx, run).spec
    usual = _usual(tx, tenant, spec, (run.pipeline_version, run.body or ""))
    if not usual.runs:
        return unknown
    states = step_columns.step_states(tx, tenant, id)
    left = _left(spec, states, usual, (tx.now - run.started_at).total_seconds() * 1_000)
    ms = longest_ms(usual.graph, {step: each or 0.0 for step, each in left.items()})
    return RunForecast.of(
        run,
        id=id,
        runs=usual.runs,
        too_few_runs=usual.runs < FEW_RUNS,
        left_ms=round(ms, 1),
        ends_at=tx.now + timedelta(milliseconds=ms),
        unknown_steps=sum(each is None for each in left.values()),
    )


def _usual(tx: Transaction, tenant: str, spec: PipelineSpec, of: tuple[int, str]) -> Usual:
    key = (tenant, spec.id, *of)
    kept = tx.cache(USUAL).get(key)
    if kept is not None and time.monotonic() - kept.at < FRESH_S:
        return kept
    past = past_runs(tx, tenant, spec, of[1] or None)
    usual = Usual(time.monotonic(), Graph(spec), len(past), usual_ms(spec, past))
    if past:
        tx.cache(USUAL).put(key, usual)
    return usual


def _left(spec: PipelineSpec, states: Document, usual: Usual, now_ms: float) -> dict[str, float | None]:
    """What is left of each step (ms); None: nobody knows, as no past run had it."""
    remainders: dict[str, float | None] = {}
    columns = zip(states["ordinals"], states["statuses"], states["startedMs"], strict=True)
    for ordinal, letter, started in columns:
        step = spec.steps[ordinal - 1].id
        whole = usual.steps.get(step)
        if letter in _FINAL:
            remainders[step] = 0.0
        elif whole is None:
            remainders[step] = None
        elif (share := _share(states["items"].get(str(ordinal)))) is not None:
            remainders[step] = whole * share
        else:
            remainders[step] = whole if started is None else max(0.0, whole - (now_ms - started))
    return remainders


def _share(items: Mapping[str, Any] | None) -> float | None:
    """The share of a map's items that is left; None of a step that is no map, or has no items yet."""
    if not items or not items["total"]:
        return None
    done: int = sum(number for letter, number in items["statuses"].items() if letter in _FINAL)
    return 1.0 - done / int(items["total"])
