"""Holds what a look needs of storage: values are loaded and stored between two transactions, never inside."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from pipeweave.errors import CorruptValue, NotFound, ObjectTooLarge
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import Signal
from pipeweave.orchestrator.engine.referred_values import Loaded
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits.ending import output_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Paths:
    """Values in storage that must be loaded."""

    paths: Sequence[str]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A value that must be stored; `key` is the id of the run whose input or output it is."""

    key: UUID
    value: Any


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
