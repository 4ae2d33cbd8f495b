"""Acts on steps that values decide about: conditions, and the steps that the engine decides itself.

The predecessors of such a step let it run. Its values are read, in one statement for all of the steps; what
they come to is pure (step_results.py); and one guarded UPDATE per outcome writes it. No worker, no message
and no limit has a part in it. `Advance` goes on with what is left to run, and with the successors of what
ended here, in the same transaction.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from pipeweave.errors import AttemptFailed, InvalidInput, NotFound
from pipeweave.labels import Labels
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine import referred_values, step_results, waiting
from pipeweave.orchestrator.engine.referred_values import Loaded, NotLoaded, ReferredValues, Scope
from pipeweave.orchestrator.engine.step_results import EngineResult
from pipeweave.orchestrator.state import cancelling, completing, releasing, routing
from pipeweave.orchestrator.state.cancelling import CONDITION_FALSE, PREDECESSOR_FAILED
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import ChildStep, Gather, WaitStep, engine_results

# So many steps are acted on in one transaction, which holds rows locked meanwhile; the others follow by
# messages about their joins.
MAX_ACTS = 100


class ActingOutcome(Enum):
    """What else than a value or a failure a step may come to."""

    GOES_ON = "goes on"  # its task runs, or one for each item
    WAITS = "waits"  # for a time, a signal, people or a run
    PASSED_OVER = "passed over"  # its condition is false
    AFTER_FAILURE = "after failure"  # a gather: a failure before its block kept its members from running


@dataclass(frozen=True, slots=True)
class Completed:
    """A step of the engine that completed; `selected_next` None selects every successor."""

    task_run: TaskRun
    selected_next: frozenset[str] | None


@dataclass(slots=True)
class Acted:
    """What was done about steps, and what is left to do.

    Args:
        go_on: the ordinals of those that run a task, or a task for each item: their condition is true.
        completed: steps that the engine has completed.
        skipped: the ordinals of those whose condition is false.
        after_failure: the ordinals of gathers of which no member was reached, because of a failure before.
        failed: steps that fail, with the reason; nothing of it is written.
        unloaded: for the ordinals of steps that are left pending, the paths in storage of what they lack.
    """

    go_on: list[int] = field(default_factory=list)
    completed: list[Completed] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    after_failure: list[int] = field(default_factory=list)
    failed: list[tuple[TaskRun, Failure]] = field(default_factory=list)
    unloaded: dict[int, Sequence[str]] = field(default_factory=dict)


def act(tx: Transaction, run: RunHeader, ordinals: Sequence[int], loaded: Loaded) -> Acted:
    """Decide about pending steps that wait for values. What another transaction has decided stays as it is.

    Args:
        ordinals: steps that their predecessors let run, at most MAX_ACTS.
        loaded: values that were loaded from storage before the transaction.
    """
    wanted = Wanted()
    for each in ordinals:
        wanted |= run.plan.values[each].wanted
    values = referred_values.find(tx, run, wanted, loaded)
    acted = Acted()
    made: list[EngineResult] = []
    failures: dict[int, Failure] = {}
    waits: list[int] = []
    required: dict[int, Labels] = {}
    for ordinal in sorted(ordinals):
        match _decide(tx, run, ordinal, values, required):
            case EngineResult() as one:
                made.append(one)
            case Failure() as failure:
                failures[ordinal] = failure
            case NotLoaded() as missing:
                acted.unloaded[ordinal] = missing.paths
            case ActingOutcome.GOES_ON:
                acted.go_on.append(ordinal)
            case ActingOutcome.WAITS:
                waits.append(ordinal)
            case ActingOutcome.AFTER_FAILURE:
                acted.after_failure.append(ordinal)
            case _:
                acted.skipped.append(ordinal)
    routing.require(tx, run, required)
    if waits:
        failures |= _wait(tx, run, waits, values)
    _write(tx, run, acted, made, failures)
    return acted


def _decide(
    tx: Transaction, run: RunHeader, ordinal: int, values: ReferredValues, required: dict[int, Labels]
) -> EngineResult | Failure | NotLoaded | ActingOutcome:
    """What a step comes to; the labels that it computes are added to `required`."""
    step, needed = run.plan[ordinal].step, run.plan.values[ordinal]
    try:
        scope: Scope = values.scope(needed.wanted)
        if needed.condition is not None and not needed.condition.is_true(scope, now=tx.now):
            return ActingOutcome.PASSED_OVER
        if step.computes_labels:
            required[ordinal] = step_results.labels_of(run, step, scope, tx.now)
        if step.decides is None or step.has_items:
            return ActingOutcome.GOES_ON
        if isinstance(step.decides, WaitStep | ChildStep):
            return ActingOutcome.WAITS
        result = step_results.result_of(run.plan, ordinal, scope, tx.now)
        if isinstance(step.decides, Gather) and isinstance(result, EngineResult):
            is_skipped = values.is_after_failure(step.needs, run.failure_mode)
            return ActingOutcome.AFTER_FAILURE if is_skipped else result
        return result
    except NotLoaded as missing:
        return missing
    except (AttemptFailed, InvalidInput, NotFound) as error:
        return failure_of(error)


def _wait(
    tx: Transaction, run: RunHeader, ordinals: Sequence[int], values: ReferredValues
) -> dict[int, Failure]:
    """Let steps wait from now on. Returns why some cannot."""
    wanted = functools.reduce(operator.or_, (run.plan.values[each].wanted for each in ordinals))
    scope = values.scope(wanted)
    begun = waiting.begin(tx, run, ordinals, lambda value: engine_results.fill(value, scope, tx.now))
    return {ordinal: failure_of(error) for ordinal, error in begun.failed.items()}


def _write(
    tx: Transaction, run: RunHeader, acted: Acted, made: Sequence[EngineResult], failures: dict[int, Failure]
) -> None:
    rows = [(each.ordinal, each.output, each.selected_next) for each in made]
    completed = completing.complete_made(tx, run.id, rows)
    chosen = {each.ordinal: each.selected_next for each in made}
    acted.completed = [
        Completed(each, None if (next_ids := chosen[each.ordinal]) is None else frozenset(next_ids))
        for each in completed
    ]
    skipped = cancelling.skip(tx, run.id, acted.skipped, code=CONDITION_FALSE)
    acted.skipped = [each.ordinal for each in skipped]
    others = cancelling.skip(tx, run.id, acted.after_failure, code=PREDECESSOR_FAILED)
    acted.after_failure = [each.ordinal for each in others]
    # Locked, because an attempt ends by another guard than that of a step that nobody has decided.
    undecided = releasing.lock_undecided(tx, run.id, list(failures)) if failures else []
    acted.failed = [(each, failures[each.ordinal]) for each in undecided]
