"""What somebody wants a trigger to be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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
