"""Reads the values that maps, conditions and steps of the engine refer to, and never reads storage inside a
transaction.

Nearly always the values are in rows: the run's input, or the outputs of steps. A large one is in storage,
which may take long or be away, while the transaction that decides about the step holds locks. So a
transaction that finds a path raises NotLoaded and leaves the step pending. The handler of the step's join
message loads the objects between two transactions (`joins.check`) and hands them to the second one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pipeweave import error_kinds, ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.domain.places import LAST_ROUND, BodyScope, Place, Places, StepOutcome
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import FAILED_TASK
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.state import outputs
from pipeweave.orchestrator.state.cancelling import PREDECESSOR_FAILED
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import Predecessor, engine_results, references

# Values from storage by path, as `Values.load_all` gives them: an error where there is no readable value.
Loaded = Mapping[str, Any]
NOTHING_LOADED: Loaded = {}

# The values that an expression may name, by their roots.
Scope = Mapping[str, Any]


class NotLoaded(Exception):
    """A value that a step refers to is in storage, at `paths`, and was not loaded before the transaction."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(*paths)
        self.paths = tuple(paths)


def read(tx: Transaction, run: RunHeader, ordinal: int, loaded: Loaded) -> Any:
    """The value that the map of this ordinal runs over.

    Args:
        loaded: values that were loaded from storage before the transaction.

    Raises:
        NotLoaded: values at further paths must be loaded.
        InvalidReference: a referenced value does not exist.
        NotFound, CorruptValue: a value that is referred to cannot be read.
    """
    over = run.plan[ordinal].step.over
    wanted = Wanted.of(references.compile_value(over).references)
    scope = find(tx, run, wanted, loaded).scope(wanted)
    return engine_results.fill(over, scope, tx.now)


def find(tx: Transaction, run: RunHeader, wanted: Wanted, loaded: Loaded = NOTHING_LOADED) -> ReferredValues:
    """Find where values are; one statement reads the rows of all steps that are named.

    Args:
        loaded: values that were loaded from storage before the transaction.
    """
    places: Places = {}
    outcomes: dict[str, StepOutcome] = {}
    if "loop" in wanted.roots and run.scope is not None and LAST_ROUND in run.scope.places:
        wanted = replace(wanted, outputs={**wanted.outputs, LAST_ROUND: None})
    if wanted.outcomes:
        places, outcomes = outputs.places_and_outcomes(tx, run, wanted.outputs, wanted.outcomes)
    elif wanted.outputs:
        places = outputs.places_of_steps(tx, run, wanted.outputs.keys(), wanted.outputs)
    return ReferredValues(run, places, outcomes, loaded)


@dataclass(frozen=True, slots=True)
class ReferredValues:
    """Where the values are that some steps refer to."""

    _run: RunHeader
    _places: Places
    _outcomes: Mapping[str, StepOutcome]
    _loaded: Loaded

    def scope(self, wanted: Wanted) -> dict[str, Any]:
        """The values by root, for what refers to no more than is wanted.

        Raises:
            NotLoaded: values at further paths must be loaded.
            InvalidReference: a variable refers to a value that does not exist.
            NotFound, CorruptValue: a value cannot be read.
        """
        named = self._named(wanted)
        input_place = self._input_place(wanted)
        self._check_loaded([*named.values(), input_place])
        run_input = self._value(input_place)
        steps = {step_id: self._values(place) for step_id, place in named.items()}
        last = steps.pop(LAST_ROUND, None)
        return {
            "input": run_input,
            "steps": steps,
            **of_outcomes(self._outcomes, wanted.outcomes),
            **of_run(self._run, wanted.roots, run_input, last),
        }

    def around_body(self, wanted: Wanted, own: Mapping[str, Any]) -> BodyScope:
        """What a body sees that refers to no more than is wanted; nothing is loaded.

        Args:
            own: values that the step with the body gives it, by their roots.
        """
        seen = of_run(self._run, wanted.roots - {"variables"}, None)
        if "trigger" in seen:
            del seen["trigger"]["payload"]
        seen |= {root: value for root, value in own.items() if root in wanted.roots}
        outcomes = {each: self._outcomes[each] for each in wanted.outcomes}
        return BodyScope(seen, self._named(wanted), outcomes)

    def _named(self, wanted: Wanted) -> Places:
        of_loop = (LAST_ROUND,) if "loop" in wanted.roots else ()
        return {each: self._places[each] for each in (*wanted.outputs, *of_loop) if each in self._places}

    def is_after_failure(self, before: Collection[str], mode: str) -> bool:
        """Whether a step is skipped because of a failure, by the outcomes of the steps before it: one of them
        was, and none of the others completed where the failure mode would go on with it.
        """
        ends = [self._outcomes[each] for each in before]
        return engine_results.is_after_failure(
            mode,
            [
                Predecessor(each.status, follows_failure=each.error_code == PREDECESSOR_FAILED)
                for each in ends
            ],
        )

    def with_loaded(self, loaded: Loaded) -> ReferredValues:
        """The same, with values that were loaded from storage."""
        return replace(self, _loaded=loaded)

    def paths(self, wanted: Wanted) -> list[str]:
        """The paths in storage of what is wanted."""
        return _paths([*self._named(wanted).values(), self._input_place(wanted)])

    def _input_place(self, wanted: Wanted) -> Place:
        is_needed = wanted.has_payload or "input" in wanted.roots
        if "variables" in wanted.roots:
            is_needed = is_needed or not references.compile_value(self._run.plan.variables).is_constant
        return (self._run.input, self._run.input_path) if is_needed else (None, None)

    def _check_loaded(self, places: Sequence[Place | list[Place]]) -> None:
        if missing := [path for path in _paths(places) if path not in self._loaded]:
            raise NotLoaded(missing)

    def _values(self, place: Place | list[Place]) -> Any:
        return [self._value(each) for each in place] if isinstance(place, list) else self._value(place)

    def _value(self, place: Place) -> Any:
        inline, path = place
        if path is None:
            return inline
        value = self._loaded[path]
        if isinstance(value, PipeWeaveError):
            raise value
        return value


def _paths(places: Sequence[Place | list[Place]]) -> list[str]:
    flat = [one for each in places for one in (each if isinstance(each, list) else [each])]
    return [path for _, path in flat if path is not None]


def of_outcomes(outcomes: Mapping[str, StepOutcome], step_ids: Collection[str]) -> dict[str, Any]:
    """The values of `status` and `errors`, for these steps."""
    return {
        "status": {each: outcomes[each].status for each in step_ids},
        "errors": {each: _error(each, outcomes[each]) for each in step_ids},
    }


def _error(step_id: str, outcome: StepOutcome) -> dict[str, Any] | None:
    if outcome.status not in FAILED_TASK:
        return None
    return error_kinds.as_seen(step_id, outcome.error_code, outcome.error, outcome.attempt)


def of_run(run: RunHeader, roots: frozenset[str], run_input: Any, last: Any = None) -> dict[str, Any]:
    """The values of these roots that are those of the run itself: `variables`, `trigger` and `run`; and in a
    body those that the step around it gives.

    Args:
        run_input: the run's input, where one of them needs it.
        last: the output of the round before, in the body of a loop.

    Raises:
        InvalidReference: a variable refers to a value that does not exist.
    """
    values: dict[str, Any] = {}
    if "variables" in roots:
        values["variables"] = references.resolve(run.plan.variables, input=run_input, steps={})
    if "trigger" in roots:
        values["trigger"] = _trigger(run, run_input)
    if "run" in roots:
        values["run"] = {
            "id": ids.show(ids.RUN, run.id),
            "pipeline": run.pipeline_id,
            "createdAt": iso(_created_at(run)),
            "outcome": None,
        }
    if run.scope is not None:
        values |= {root: value for root, value in run.scope.values.items() if root in roots}
        if "trigger" in values:
            values["trigger"] = {**values["trigger"], "payload": run_input}
        if "loop" in values:
            values["loop"] = {**values["loop"], "last": last}
    return values


def _trigger(run: RunHeader, payload: Any) -> dict[str, Any]:
    cause = run.triggered_by
    return {
        "type": None if cause is None else cause.kind,
        "id": None if cause is None else cause.id,
        "actor": None if cause is None else cause.actor,
        "timestamp": iso(_created_at(run)),
        "payload": payload,
    }


def _created_at(run: RunHeader) -> datetime:
    """When the run was created: its id says so, to the millisecond."""
    return datetime.fromtimestamp((run.id.int >> 80) / 1000, UTC)
