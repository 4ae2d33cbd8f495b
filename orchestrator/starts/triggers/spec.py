"""What somebody wants a trigger to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TriggerSignal:
    """The signal that a delivery of a webhook is sent as.

    Args:
        name: a text, or a template.
        run_token: of the run that gets it; a template.
        payload: a template; None for what the run of the trigger would get as its input.
        or_start: a run is started with this token first, if there is none.
    """

    name: str
    run_token: str
    payload: Any = None
    or_start: bool = False

    def to_json(self) -> dict[str, Any]:
        """As it is stored and shown."""
        return {
            "name": self.name,
            "runToken": self.run_token,
            "payload": self.payload,
            "orStart": self.or_start,
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> TriggerSignal:
        """The reverse of `to_json`."""
        return cls(stored["name"], stored["runToken"], stored["payload"], stored["orStart"])


@dataclass(frozen=True, slots=True)
class TriggerSpec:
    """What somebody wants a trigger to be.

    Args:
        kind: one of `row.KINDS`.
        scheme: of a webhook; None for `pipeweave`.
        secret: of a webhook; None: it keeps its secret, and a new one gets a secret.
        headers: of a webhook: those that the run gets, in lower case.
        max_per_minute: of a webhook: so many deliveries are taken; None for DEFAULT_PER_MINUTE.
        event: what a trigger of events fires for, one of `row.EVENTS`.
        allows_self: runs of its own pipeline fire it, too.
        paused: None leaves a stored trigger as it is.
        signal: of a webhook: what its deliveries are sent as; None: each starts a run.
    """

    kind: str
    pipeline_id: str
    filter: dict[str, Any] = field(default_factory=dict)
    input: Any = None
    scheme: str | None = None
    secret: str | None = None
    headers: tuple[str, ...] = ()
    max_per_minute: int | None = None
    event: str | None = None
    allows_self: bool = False
    paused: bool | None = None
    signal: TriggerSignal | None = None

    @property
    def starts_runs(self) -> bool:
        """Whether it may start runs."""
        return self.signal is None or self.signal.or_start
