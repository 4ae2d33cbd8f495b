"""Holds what a look needs of storage: values are loaded and stored between two transactions, never inside."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from pipeweave.errors import CorruptValue, InvalidSetting, NotFound, ObjectTooLarge, Unavailable
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import Signal
from pipeweave.orchestrator.engine.referred_values import Loaded
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits.ending import output_of

log = logging.getLogger(__name__)

# Values that are loaded or stored at a time, each of up to 100 MB in memory.
FETCHED_TOGETHER = 8


@dataclass(frozen=True, slots=True)
class Paths:
    """Values in storage that must be loaded."""

    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A value that must be stored; `key` is the id of the run whose input or output it is."""

    key: UUID
    value: Any


# Why storage did not give something.
Away = Unavailable | InvalidSetting
# What a look lacks: a signal's payload as an output, values, or the place of one.
Need = Signal | Paths | TooLarge


@dataclass(frozen=True, slots=True)
class Held:
    """What was loaded and stored for a look.

    Args:
        kept: outputs and inputs by the signal whose payload they have, or by their run.
        loaded: values by their path.
    """

    kept: Mapping[UUID, KeptValue] = field(default_factory=dict)
    loaded: Loaded = field(default_factory=dict)

    def __or__(self, other: Held) -> Held:
        return Held({**self.kept, **other.kept}, {**self.loaded, **other.loaded})

    def with_needs(self, values: Values, needs: Sequence[Need]) -> tuple[Held, list[Away | None]]:
        """The same, with what was lacking of up to FETCHED_TOGETHER waits, got beside each other.

        Returns:
            What is held now, and for each need why storage did not give it; None where it did.
        """
        parts = {key: part for need in needs for key, part in self._parts(need).items()}
        with ThreadPoolExecutor(FETCHED_TOGETHER, "held") as threads:
            got = dict(zip(parts, threads.map(lambda part: _part(values, part), parts.values()), strict=True))
        held = self
        for each in got.values():
            held = held | each if isinstance(each, Held) else held
        errors = {key: each for key, each in got.items() if not isinstance(each, Held)}
        return held, [
            next((errors[key] for key in self._parts(each) if key in errors), None) for each in needs
        ]

    def _parts(self, need: Need) -> dict[str | UUID, Need]:
        """The parts of a need that are not held, each by what names it: several waits may lack the same."""
        match need:
            case Paths():
                return {each: Paths((each,)) for each in need.paths if each not in self.loaded}
            case Signal():
                return {need.id: need}
            case TooLarge():
                return {need.key: need}

    def with_need(self, values: Values, need: Need) -> Held:
        """The same, with what was lacking.

        Raises:
            Unavailable, InvalidSetting: storage cannot be reached, or refuses the settings.
        """
        match need:
            case Signal():
                return replace(self, kept={**self.kept, need.id: _output(values, need)})
            case Paths():
                return replace(self, loaded={**self.loaded, **values.load_all(need.paths)})
            case TooLarge():
                return replace(self, kept={**self.kept, need.key: values.keep(need.value)})


def _output(values: Values, signal: Signal) -> KeptValue:
    try:
        payload = values.load(None, signal.payload_path)
    except (NotFound, ObjectTooLarge, CorruptValue) as error:
        log.warning("signal.payload_lost", extra={"reason": error.detail, "signal": signal.name})
        payload = None
    return values.keep(output_of(signal, payload))


NOTHING_HELD = Held()


def _part(values: Values, need: Need) -> Held | Away:
    try:
        return NOTHING_HELD.with_need(values, need)
    except (Unavailable, InvalidSetting) as error:
        return error
