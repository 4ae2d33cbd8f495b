"""Starts the child runs that waits are for, in a transaction of their own, with the waits locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeweave.errors import NotFound, PipeWeaveError
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.places import LAST_ROUND
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import Wait
from pipeweave.orchestrator.engine import referred_values
from pipeweave.orchestrator.engine.referred_values import NotLoaded, ReferredValues
from pipeweave.orchestrator.runs import child_runs
from pipeweave.orchestrator.runs.child_runs import NewChild, TooLargeForRow
from pipeweave.orchestrator.state import handled_errors, run_headers, run_transitions, waits
from pipeweave.orchestrator.state.waits import Waiting
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import keep_inline
from pipeweave.orchestrator.waits.child_outputs import value_at
from pipeweave.orchestrator.waits.children import LATEST, SOONEST
from pipeweave.orchestrator.waits.held import NOTHING_HELD, Held, Need, Paths, TooLarge
from pipeweave.spec import (
    Body,
    ChildPipeline,
    ChildStep,
    StepSpec,
    body_of,
    engine_results,
    error_rules,
    rounds,
)
from pipeweave.spec.references import compile_value

# A wait whose child did not start, with what it lacks, or why it cannot start.
NotStarted = tuple[Waiting, Need | Failure]


def start(tx: Transaction, waiting: Sequence[Waiting], held: Held = NOTHING_HELD) -> list[NotStarted]:
    """Start the children that waits of one step are for, unless they were started, or their parent may start
    nothing now.

    Args:
        waiting: waits of one step of a run, of the step itself or of its items.

    Returns:
        The waits whose children did not start, with what they lack, or why they cannot start.

    Raises:
        Unavailable: maintenance has begun, or the catalog changes all the time.
    """
    run_id = waiting[0].wait.run_id
    run = run_headers.load(tx, run_id)
    # The run first: its end, or its pause, sees the children, or prevents them.
    status = None if run is None else run_transitions.lock_status(tx, run.id)
    if run is None or status is not RunStatus.RUNNING:
        if status is RunStatus.PAUSED:
            # Its resume lets the waits be looked at again.
            for each in waiting:
                waits.postpone(tx, each.wait, tx.now + LATEST)
        return []
    started = waits.start_children(tx, run_id, [each.wait for each in waiting], tx.now + SOONEST)
    return _start(tx, run, [each for each in waiting if each.task_run.id in started], held)


def _start(tx: Transaction, run: RunHeader, waiting: Sequence[Waiting], held: Held) -> list[NotStarted]:
    left: list[NotStarted] = []
    children: list[NewChild] = []
    by_child = {each.wait.child: each for each in waiting}
    around: dict[str, AroundBody] = {}
    for each in waiting:
        try:
            children.append(_new_child(tx, run, each, held, around))
        except NotLoaded as missing:
            left.append((each, Paths(missing.paths)))
        except PipeWeaveError as error:
            if error.status == 503:
                raise
            left.append((each, failure_of(error)))
    try:
        refused = child_runs.start(tx, children) if children else {}
    except NotFound as error:
        refused = dict.fromkeys((each.id for each in children), error)
    for child, why in refused.items():
        lacks = TooLarge(child, why.value) if isinstance(why, TooLargeForRow) else failure_of(why)
        left.append((by_child[child], lacks))
    return left


def _new_child(
    tx: Transaction, run: RunHeader, waiting: Waiting, held: Held, around: dict[str, AroundBody]
) -> NewChild:
    """The child of a wait.

    Args:
        around: what was read for bodies of this run so far, by their places.
    """
    wait, step = waiting.wait, run.plan[run.plan.ordinals[waiting.task_run.step_id]].step
    runs, place, own = _started(tx, run, step, waiting)
    if isinstance(runs, Body):
        if place not in around:
            around[place] = around_body(tx, run, place)
        return of_body(run, wait, place, own, around[place])
    value, kept = _input(tx, run, step, waiting, held), held.kept.get(wait.child)
    return NewChild(wait.child, runs, run, wait.task_run_id, wait.attempt, value, kept)


_INPUT = """
SELECT r.input_size, r.inputs_hash,
    ARRAY(SELECT c.upload_id FROM upload_claims AS c WHERE c.run_id = r.id) AS uploads
FROM runs AS r WHERE r.id = :id
"""


def _input_of(tx: Transaction, run: RunHeader) -> KeptValue:
    """The input of a run, which its bodies have, too: a large one stays where it is."""
    if run.input_path is None:
        return keep_inline(run.input)
    row = tx.execute(_INPUT, {"id": run.id}).one()
    return KeptValue(None, run.input_path, row.input_size, row.inputs_hash, tuple(row.uploads))


@dataclass(frozen=True, slots=True)
class AroundBody:
    """What all children have in common that run the same body of a run.

    Args:
        values: where the values are that the body may refer to.
        input: that of the run.
    """

    values: ReferredValues
    input: KeptValue


def around_body(tx: Transaction, run: RunHeader, body: str) -> AroundBody:
    """Read what children that run a body see of their parent.

    Args:
        body: its place in the version.
    """
    return AroundBody(referred_values.find(tx, run, run.plan.around[body]), _input_of(tx, run))


def of_body(run: RunHeader, wait: Wait, body: str, own: Mapping[str, Any], around: AroundBody) -> NewChild:
    """A child that runs a body: it sees of its parent what may be referred to at the place of the body.

    Args:
        body: its place in the version.
        own: what it is given besides, by root.
    """
    wanted = run.plan.around[body]
    scope = around.values.around_body(wanted, own)
    if "loop" in own and "loop" in wanted.roots:
        last = wait.data.get("last", {})
        place = (last.get("value"), last.get("path"))
        scope = replace(scope, places={**scope.places, LAST_ROUND: place})
    assert run.pipeline_id is not None
    version = ChildPipeline(run.pipeline_id, run.pipeline_version)
    return NewChild(
        wait.child, version, run, wait.task_run_id, wait.attempt, run.input, around.input, body, scope
    )


def _started(
    tx: Transaction, run: RunHeader, step: StepSpec, waiting: Waiting
) -> tuple[ChildPipeline | Body, str, dict[str, Any]]:
    """What the child of a wait runs; and of a body its place, and what it is given."""
    rule = waiting.wait.rule
    if rule is None:
        decides: ChildStep = step.decides  # type: ignore[assignment]
        return body_of(decides), "" if step.own_body is None else step.own_body[0], _own_roots(waiting)
    call = run.plan.rule_named(step.id, rule).call
    return call.runs, error_rules.place_of(step, rule), {"error": _error(tx, run, step, waiting.wait)}


def _own_roots(waiting: Waiting) -> dict[str, Any]:
    """What a step gives its body: the item of a map, or the round of a loop."""
    task_run = waiting.task_run
    if task_run.map_index is not None:
        return {"item": task_run.item, "mapIndex": task_run.map_index}
    return {"loop": {"index": waiting.wait.data["round"]}}


def _input(tx: Transaction, run: RunHeader, step: StepSpec, waiting: Waiting, held: Held) -> Any:
    wait, item = waiting.wait, waiting.task_run.item
    if wait.rule is not None:
        return _of_error(tx, run, step, wait, held)
    named = {} if step.item_name is None else {step.item_name: item}
    if step.params is None:
        return named or item
    wanted = run.plan.params[run.plan.ordinals[step.id]]
    scope = referred_values.find(tx, run, wanted, held.loaded).scope(wanted)
    if wanted.roots & {"loop", "last"}:
        last = value_at(wait.data.get("last", {}), held)
        scope = {**scope, **rounds.scope_of_round(wait.data["round"], last)}
    if step.has_items:
        scope = {**scope, "item": item, "mapIndex": waiting.task_run.map_index}
    return {**named, **engine_results.fill(dict(step.params), scope, tx.now)}


def _error(tx: Transaction, run: RunHeader, step: StepSpec, wait: Wait) -> dict[str, Any]:
    [error] = handled_errors.errors_of(tx, run.id, [wait.task_run_id]).values()
    return error.as_seen(step.id)


def _of_error(tx: Transaction, run: RunHeader, step: StepSpec, wait: Wait, held: Held) -> Any:
    """The input of a run that takes care of an error: the params of its rule, or else the error alone."""
    assert wait.rule is not None
    seen, params = _error(tx, run, step, wait), run.plan.rule_named(step.id, wait.rule).call.params
    if params is None:
        return {"error": seen}
    wanted = Wanted.of(compile_value(params).references)
    scope = referred_values.find(tx, run, wanted, held.loaded).scope(wanted)
    return engine_results.fill(dict(params), {**scope, "error": seen}, tx.now)
