"""Put the steps of a pipeline into the order of their numbers: each after its predecessors, in lexical order
among those that could come next, as `Graph.order` has them. Pure.

A version is stored in this order, and its steps are numbered in the order in which it is stored. What was
stored before keeps the numbers that the rows of its runs have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeweave.spec.child_calls import ChildCall, ErrorRule
from pipeweave.spec.child_steps import Body, LoopStep
from pipeweave.spec.edges import successors_of, topological_order


def numbered(steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """StepSpecs in the order of their numbers, those of their bodies as well.

    Steps that no order has, because they are on a cycle or behind one, come last.
    """
    predecessors = {step.id: tuple(dict.fromkeys(step.needs)) for step in steps}
    order = topological_order(predecessors, successors_of(predecessors))
    places = {id: place for place, id in enumerate(order)}
    ordered = sorted(steps, key=lambda step: places.get(step.id, len(places)))
    return tuple(_with_numbered_bodies(_with_sorted_needs(step, places)) for step in ordered)


def numbered_call(call: ChildCall) -> ChildCall:
    """A call of which the steps are in the order of their numbers."""
    return replace(call, runs=_numbered_body(call.runs)) if isinstance(call.runs, Body) else call


def numbered_rule(rule: ErrorRule) -> ErrorRule:
    """A rule for errors of which the steps are in the order of their numbers."""
    return replace(rule, call=numbered_call(rule.call))


def _with_sorted_needs(step: Any, places: dict[str, int]) -> Any:
    if len(step.needs) < 2:
        return step
    return replace(step, needs=tuple(sorted(step.needs, key=lambda each: places.get(each, len(places)))))


def _with_numbered_bodies(step: Any) -> Any:
    if not any(step.bodies):
        return step
    return replace(
        step,
        decides=_numbered_body(step.decides)
        if isinstance(step.decides, Body)
        else _numbered_loop(step.decides),
        on_error=None if step.on_error is None else numbered_rule(step.on_error),
        compensate=None if step.compensate is None else numbered_call(step.compensate),
    )


def _numbered_body(body: Body) -> Body:
    return replace(body, steps=numbered(body.steps))


def _numbered_loop(decides: Any) -> Any:
    if isinstance(decides, LoopStep) and isinstance(decides.body, Body):
        return replace(decides, body=_numbered_body(decides.body))
    return decides
