"""What runs of random pipelines come to, by a model of its own.

The model has the tables of docs/state-machine.md and docs/flows.md, written down once more: it knows neither
the rules of the engine nor its expressions, and nothing of PostgreSQL. Each condition comes with the answer
that the model gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any
from unittest.mock import ANY

from pipeweave.spec import (
    Approval,
    Body,
    ChildPipeline,
    Choice,
    Gather,
    LoopStep,
    PipelineSpec,
    SignalWait,
    StepSpec,
    Transform,
)
from support.branch_values import (
    BOOM,
    BROKEN,
    FAILED,
    NEVER,
    WEAK,
    WITH_OUTPUT,
    Branches,
    End,
    Inner,
    Outcome,
)


def outcome_of(branches: Branches, mode: str) -> Outcome:
    """What a run must come to. Under fail-fast the steps are those of a run that went on."""
    outcome = Outcome("")
    held = {
        member
        for step in branches.spec.steps
        if isinstance(step.decides, Gather)
        for member in step.decides.members
    }
    for step in _in_order(branches.spec):
        decision = _joined(step, {each: outcome.ends[each] for each in step.needs}, branches, mode)
        end = decision if decision is not None else _run(step, branches, outcome, mode)
        if end.status in FAILED:
            end = _taken_care_of(step, end, branches, outcome)
        outcome.ends[step.id] = end
        is_excused = (
            step.continue_on_error or step.id in held or (end.is_handled and end.status not in FAILED)
        )
        if (end.status in FAILED or end.items_failed) and not is_excused:
            outcome.failures.add(step.id)
    outcome.run_status = "completed"
    if outcome.failures:
        outcome.run_status = "partial" if mode == "partial-merge" else "failed"
    outcome.decided = outcome.run_status
    _end(branches, outcome)
    if outcome.run_status in WITH_OUTPUT:
        outcome.output = _output(branches.spec, outcome.ends)
    return outcome


def _output(spec: PipelineSpec, ends: Mapping[str, End]) -> Any:
    """The output of the only step that nothing follows, or those of several by their ids."""
    followed = {before for step in spec.steps for before in step.needs}
    outputs = {each.id: ends[each.id].output for each in spec.steps if each.id not in followed}
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def _in_order(spec: PipelineSpec) -> Iterator[StepSpec]:
    """The steps, each after those before it."""
    ready = TopologicalSorter({each.id: each.needs for each in spec.steps})
    return (spec.by_id[each] for each in ready.static_order())


# --- joins ------------------------------------------------------------------------------------------------


def _edge(step: StepSpec, end: End, before: StepSpec) -> str:
    """An edge is taken, not taken, or failed."""
    if end.status == "completed":
        return "taken" if end.chosen is None or step.id in end.chosen else "not taken"
    if end.status == "skipped":
        return {"condition": "taken", "failure": "failed", None: "not taken"}[end.cause]
    return "taken" if before.continue_on_error and end.status != "cancelled" else "failed"


def _joined(step: StepSpec, before: Mapping[str, End], branches: Branches, mode: str) -> End | None:
    """None if the step runs by its join rule."""
    if not before:
        return None
    edges = [_edge(step, end, branches.spec.by_id[each]) for each, end in before.items()]
    taken, has_failed = edges.count("taken"), "failed" in edges
    if step.join.takes_failures:
        is_reached = taken > 0 or has_failed or not step.join.needs_one
        return None if is_reached else End("skipped")
    if step.join.at_least is not None:
        runs = taken >= step.join.at_least
    elif has_failed:
        runs = mode == "partial-merge" and taken > 0
    else:
        runs = taken > 0
    return None if runs else End("skipped", "failure" if has_failed else None)


# --- steps ------------------------------------------------------------------------------------------------


def _run(step: StepSpec, branches: Branches, outcome: Outcome, mode: str) -> End:
    if step.condition is not None:
        answer = branches.answers[step.condition](outcome.ends)
        if answer in BROKEN:
            return End("failed", code=BROKEN[answer])
        if answer is not True:
            return End("skipped", "condition")
    if step.map is not None:
        return _mapped(step, branches, outcome, mode)
    match step.decides:
        case Choice() as choice:
            return _chosen(step, choice, branches, outcome)
        case Transform() as transform:
            return _transformed(transform, branches, outcome)
        case Gather() as gather:
            return _gathered(step, gather, branches, outcome, mode)
        case ChildPipeline() | Body():
            return _inside(step, branches.inner[step.id], outcome)
        case LoopStep() as loop:
            return _in_rounds(step, loop, branches, outcome)
        case SignalWait() as signal:
            return _signalled(signal, branches)
        case Approval() as approval:
            return _decided(approval, branches.decisions[step.id])
    return _called(step, branches, outcome)


def _chosen(step: StepSpec, choice: Choice, branches: Branches, outcome: Outcome) -> End:
    always = _outside_of_branches(step, choice, branches)
    for place, case in enumerate(choice.cases):
        answer = True if case.condition is None else branches.answers[case.condition](outcome.ends)
        if answer in BROKEN:
            return End("failed", code=BROKEN[answer])
        if answer is True:
            return End("completed", None, frozenset(always | set(case.next)), place)
    return End("completed", None, frozenset(always))


def _outside_of_branches(step: StepSpec, choice: Choice, branches: Branches) -> set[str]:
    after = {each.id for each in branches.spec.steps if step.id in each.needs}
    return after - {each for case in choice.cases for each in case.next}


def _transformed(transform: Transform, branches: Branches, outcome: Outcome) -> End:
    for each in transform.fail_if:
        answer = branches.answers[each.condition](outcome.ends)
        if answer is True or answer in BROKEN:
            return End("failed", code="WRONG" if answer is True else BROKEN[answer])
    return End("completed", output={"made": 1})


def _gathered(step: StepSpec, gather: Gather, branches: Branches, outcome: Outcome, mode: str) -> End:
    for member in gather.members:
        if outcome.ends[member].status in FAILED and not branches.spec.by_id[member].continue_on_error:
            return End("failed", code="PARALLEL_FAILED")
    before = [outcome.ends[each] for each in step.needs]
    goes_on = mode == "partial-merge" and any(each.status == "completed" for each in before)
    if any(each.cause == "failure" for each in before) and not goes_on:
        return End("skipped", "failure")
    return End("completed", output={each: outcome.ends[each].output for each in step.needs})


def _called(step: StepSpec, branches: Branches, outcome: Outcome) -> End:
    tries, most = branches.tries.get(step.id, 0), 1 if step.retry is None else step.retry.attempts
    outcome.calls[step.id] += min(tries + 1, most)
    if tries >= most:
        return End("failed", code=WEAK)
    if step.id in branches.reports:
        return _reported(branches.reports[step.id])
    if step.id in branches.fails:
        return End("failed", code=BOOM)
    chosen = branches.chooses.get(step.id)
    return End("completed", None, None if chosen is None else frozenset(chosen), {"of": step.id})


def _reported(report: Any) -> End:
    if report is NEVER:
        return End("timeout", code="WAIT_TIMEOUT")
    if report.get("status") == "failed":
        return End("failed", code="ASYNC_FAILED")
    return End("completed", output=report)


def _mapped(step: StepSpec, branches: Branches, outcome: Outcome, mode: str) -> End:
    assert step.map is not None
    inner, count = branches.inner.get(step.id), len(branches.input["lists"][step.id])
    failed = [
        (step.id, each) in branches.fails or (inner is not None and not inner.is_fine)
        for each in range(count)
    ]
    if inner is None:
        outcome.calls[step.id] += count
    else:
        outcome.calls.update(inner.calls * count)
    counts = step.map.failure == "run" and any(failed)
    goes_on = step.map.failure == "partial" or (step.map.failure == "run" and mode == "partial-merge")
    if any(failed) and not (goes_on and not all(failed)):
        return End("failed", code="MAP_ITEMS_FAILED", items_failed=counts)
    output = {"of": step.id} if inner is None else inner.output
    return End("completed", output=[None if each else output for each in failed], items_failed=counts)


# --- steps that run something, or wait --------------------------------------------------------------------


def _inside(step: StepSpec, inner: Inner, outcome: Outcome) -> End:
    attempts = 1 if inner.is_fine or step.retry is None else step.retry.attempts
    outcome.calls.update(inner.calls * attempts)
    return End("completed", output=inner.output) if inner.is_fine else End("failed", code="CHILD_FAILED")


def _in_rounds(step: StepSpec, loop: LoopStep, branches: Branches, outcome: Outcome) -> End:
    inner, wanted = branches.inner[step.id], branches.rounds[step.id]
    if not inner.is_fine:
        return _inside(step, inner, outcome)
    rounds = min(wanted, loop.max_rounds)
    outcome.calls.update(inner.calls * rounds)
    if wanted > loop.max_rounds and loop.until is not None:
        return End("failed", code="LOOP_LIMIT")
    return End("completed", output=[inner.output] * rounds if loop.collect else inner.output)


def _signalled(wait: SignalWait, branches: Branches) -> End:
    [name] = wait.names
    if name in branches.signals:
        return End(
            "completed", output={"name": name, "payload": branches.signals[name], "by": ANY, "at": ANY}
        )
    return _timed_out(wait)


def _decided(wait: Approval, decision: Any) -> End:
    if decision is NEVER:
        return _timed_out(wait)
    if not decision and wait.fails_when_rejected:
        return End("failed", code="REJECTED")
    return End("completed", output=ANY)


def _timed_out(wait: SignalWait | Approval) -> End:
    if isinstance(wait.default, dict):
        return End("completed", output=wait.default)
    return End("timeout", code="WAIT_TIMEOUT")


# --- what follows failed steps and the last step ----------------------------------------------------------


def _taken_care_of(step: StepSpec, end: End, branches: Branches, outcome: Outcome) -> End:
    """The step with a rule for its error: its success completes the step, unless it only tells of it."""
    assert end.code is not None
    rule, place = step.on_error, f"{step.id}.onError"
    for at, each in enumerate(branches.spec.error_rules if rule is None else ()):
        if each.condition is None or branches.fits[each.condition](step.id, end.code):
            rule, place = each, f"errorHandlers[{at}]"
            break
    if rule is None:
        return end
    inner = branches.inner[place].seeing(end.code)
    outcome.calls.update(inner.calls)
    if not (inner.is_fine and rule.is_handled):
        return replace(end, is_handled=True)
    always = step.decides
    chosen = frozenset(_outside_of_branches(step, always, branches)) if isinstance(always, Choice) else None
    return End("completed", None, chosen, inner.output, end.code, is_handled=True)


def _end(branches: Branches, outcome: Outcome) -> None:
    """What follows the last step, and what the run comes to by it."""
    if outcome.run_status == "failed":
        outcome.taken_back = taken_back(branches.spec, outcome.ends)
        for each in outcome.taken_back:
            outcome.calls.update(branches.inner[f"{each}.compensate"].calls)
    if branches.spec.finally_call is None:
        return
    inner = branches.inner["finally"].seeing(outcome.run_status)
    outcome.calls.update(inner.calls)
    outcome.finally_output = inner.output
    if not inner.is_fine and outcome.run_status == "completed":
        outcome.run_status = "failed"


def taken_back(spec: PipelineSpec, ends: Mapping[str, End]) -> set[str]:
    """The steps that are taken back if a run ends badly, whose steps ended so."""
    completed = {id for id, each in ends.items() if each.status == "completed" and not each.is_handled}
    return {each.id for each in spec.steps if each.compensate is not None and each.id in completed}


def ended_before(spec: PipelineSpec) -> Mapping[str, set[str]]:
    """The steps that ended before a step did, by its id: all before it, unless it did not wait for them."""
    before: dict[str, set[str]] = {}
    for step in _in_order(spec):
        waited_for = () if step.join.at_least is not None else step.needs
        before[step.id] = {*waited_for, *(each for one in waited_for for each in before[one])}
    return before
