"""Defines who or what began a run: its kind, the id of the thing, and the actor who used it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# What may begin a run: a request; the fire of a schedule; a webhook; the end of another run or task; a rerun;
# the retry of a dead letter; a caller's own transaction; a run that contains it.
API, SCHEDULE, WEBHOOK, EVENT = "api", "schedule", "webhook", "event"
RERUN, REDRIVE, TRANSACTION, PARENT = "rerun", "redrive", "transaction", "parent"
TRIGGER_KINDS = (API, SCHEDULE, WEBHOOK, EVENT, RERUN, REDRIVE, TRANSACTION, PARENT)


@dataclass(frozen=True, slots=True)
class TriggeredBy:
    """What began a run.

    Args:
        kind: one of TRIGGER_KINDS.
        id: the schedule, webhook, run or dead letter, in the form that the API shows; None for a request.
        actor: the name of the access token, or of the person; None if nobody is known.
        traceparent: the trace context that it came with (tracing.py); None without one.
    """

    kind: str = API
    id: str | None = None
    actor: str | None = None
    traceparent: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As answers and tasks get it."""
        return {"kind": self.kind, "id": self.id, "actor": self.actor}

    def to_row(self) -> dict[str, Any]:
        """The columns of `runs`."""
        row = {"triggered_kind": self.kind, "triggered_id": self.id, "triggered_actor": self.actor}
        return row if self.traceparent is None else {**row, "traceparent": self.traceparent}


# A request of somebody who is not known.
BY_REQUEST = TriggeredBy()


def of_row(row: Any) -> TriggeredBy | None:
    """What began the run of a row with the columns of `to_row`; None for a run of an earlier version.

    A partition that was detached before these columns existed does not have them.
    """
    kind = getattr(row, "triggered_kind", None)
    if kind is None:
        return None
    return TriggeredBy(kind, row.triggered_id, row.triggered_actor, getattr(row, "traceparent", None))
