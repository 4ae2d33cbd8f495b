"""Reads the value that a map runs over, and never reads storage inside a transaction.

Nearly always the value is in rows: the run's input, or the output of a step. A large one is in storage, which
may take long or be away, while the transaction that lays out the map holds locks. So a transaction that finds
a path raises NotLoaded and leaves the map pending. The handler of the map's join message loads the objects
between two transactions (`joins.check`) and hands them to the second one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.state import outputs
from pipeweave.orchestrator.state.outputs import Place
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import references

# Values from storage by path, as `Values.load_all` gives them: an error where there is no readable value.
Loaded = Mapping[str, Any]
NOTHING_LOADED: Loaded = {}


class NotLoaded(Exception):
    """The value of a map is in storage, at `paths`, and was not loaded before the transaction."""

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
    step = run.plan[ordinal].step
    assert step.map is not None
    named = references.compile_value(step.map.over).references
    parts = references.referenced_parts(named)
    places = outputs.places_of_steps(tx, run, parts.keys(), parts) if parts else {}
    input_place = (run.input, run.input_path) if any(each.root == "input" for each in named) else (None, None)
    _check_loaded(_paths([*places.values(), input_place]), loaded)
    steps = {
        step_id: [_value(each, loaded) for each in place]
        if isinstance(place, list)
        else _value(place, loaded)
        for step_id, place in places.items()
    }
    return references.resolve(step.map.over, input=_value(input_place, loaded), steps=steps)


def _paths(places: Sequence[Place | list[Place]]) -> list[str]:
    flat = [one for each in places for one in (each if isinstance(each, list) else [each])]
    return [path for _, path in flat if path is not None]


def _check_loaded(paths: Sequence[str], loaded: Loaded) -> None:
    missing = [path for path in paths if path not in loaded]
    if missing:
        raise NotLoaded(missing)


def _value(place: Place, loaded: Loaded) -> Any:
    inline, path = place
    if path is None:
        return inline
    value = loaded[path]
    if isinstance(value, PipeWeaveError):
        raise value
    return value
