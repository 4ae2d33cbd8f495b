"""What a bulk change is asked to do: the action, the runs and the pace; to and from the columns of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.kept import RunFilter

# Runs that one bulk change changes at most; a dry run counts no further.
MOST_RUNS = 100_000


class BulkAction(StrEnum):
    """What is done to each run."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RERUN = "rerun"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs; all that is given must hold.

    Args:
        ids: one of these; None for any.
    """

    filter: RunFilter = field(default_factory=RunFilter)
    ids: tuple[UUID, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """The given conditions, as the API names them."""
        chosen = self.filter
        conditions = {
            "ids": None if self.ids is None else [ids.show(ids.RUN, each) for each in self.ids],
            "status": list(chosen.status),
            "pipelineId": list(chosen.pipeline_id),
            "triggeredBy": chosen.triggered_kind,
            "createdAfter": iso(chosen.created_after),
            "createdBefore": iso(chosen.created_before),
            "text": chosen.text,
            "meta": [f"{key}={value}" for key, value in chosen.metadata.items()],
            "version": chosen.version,
            "minMs": chosen.min_ms,
            "taskId": chosen.task_id,
        }
        return {name: value for name, value in conditions.items() if value not in (None, [])}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Selection:
        """The selection that `to_json` turned into JSON."""
        named = stored.get("ids")
        return cls(
            RunFilter(
                tuple(stored.get("status", ())),
                tuple(stored.get("pipelineId", ())),
                _moment(stored.get("createdAfter")),
                _moment(stored.get("createdBefore")),
                None,
                stored.get("triggeredBy"),
                stored.get("text"),
                dict(each.split("=", 1) for each in stored.get("meta", ())),
                stored.get("version"),
                stored.get("minMs"),
                stored.get("taskId"),
            ),
            None if named is None else tuple(ids.read(ids.RUN, each) for each in named),
        )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """A request for a bulk change.

    Args:
        reason: of a cancel or a pause; stored with each run.
        from_step: of a rerun: the step to begin at; None for the beginning.
        version: of a rerun: `same`, `latest` or the number of a version.
        most: runs that are changed at most.
        per_second: runs that are changed in a second; None for as many as it can.
        token: a second request with the same token is the first one; None: each is a new one.
        by: who asks for it.
    """

    action: BulkAction
    selection: Selection
    reason: str | None = None
    from_step: str | None = None
    version: str | int | None = None
    most: int = MOST_RUNS
    per_second: float | None = None
    token: str | None = None
    by: str | None = None

    def options(self) -> dict[str, Any]:
        """What the action takes, as the API names it."""
        options = {"reason": self.reason, "fromStep": self.from_step, "version": self.version}
        return {name: value for name, value in options.items() if value is not None}

    @classmethod
    def of_row(cls, row: Any) -> BulkRequest:
        """The request in a row of `bulk_changes`."""
        options = row.options
        return cls(
            BulkAction(row.action),
            Selection.of_json(row.filter),
            options.get("reason"),
            options.get("fromStep"),
            options.get("version"),
            row.most,
            row.per_second,
            by=row.created_by,
        )
