"""The filter of dead letters that listing, redriving and discarding share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import in_utc

# SQL condition for an open dead letter, neither retried nor discarded; partial indexes have this condition.
OPEN = "d.retried_at IS NULL AND d.discarded_at IS NULL"

# A dead letter's id is made a little before its `failed_at`, by another host's clock. This is how far the two
# times may be apart.
_CLOCKS_MAY_DIFFER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """A filter of dead letters; every given condition must hold.

    Args:
        pipeline_id: the pipeline of the run.
        task_id: the task of the task run.
        error_code: the error code of the last attempt.
        fingerprint: hex SHA-256, the same for similar errors.
        since: only dead letters that failed at this time or later.
        until: only dead letters that failed before this time.
        pipeline_run_id: the run, as its TypeID.
        task_run_id: the task run, as its TypeID.
    """

    pipeline_id: str | None = None
    task_id: str | None = None
    error_code: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    pipeline_run_id: str | None = None
    task_run_id: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the filter matches every dead letter."""
        return not self.to_json()

    def sql(self, tenant: str) -> tuple[str, dict[str, Any]]:
        """The SQL condition on the tenant's rows `d`, and its parameters."""
        where = ["d.tenant_id = :tenant"]
        where += [f"d.{name} = :{name}" for name in _EQUAL if getattr(self, name) is not None]
        parameters: dict[str, Any] = {"tenant": tenant, **{name: getattr(self, name) for name in _EQUAL}}
        if self.pipeline_run_id is not None:
            where.append("d.run_id = :run_id")
            parameters["run_id"] = ids.read(ids.RUN, self.pipeline_run_id)
        if self.task_run_id is not None:
            task_run = ids.read(ids.TASK_RUN, self.task_run_id)
            # By the run, too: there is an index of it.
            where.append("d.run_id = :run_of_task AND d.task_run_id = :task_run_id")
            parameters |= {"task_run_id": task_run, "run_of_task": ids.run_id_of(task_run)}
        # Ids are ordered by time: with bounds on the id a list does not read rows outside the time range.
        if self.since is not None:
            where.append("d.failed_at >= :since AND d.id >= :first")
            parameters |= {"since": in_utc(self.since), "first": _id_at(self.since, -_CLOCKS_MAY_DIFFER)}
        if self.until is not None:
            where.append("d.failed_at < :until AND d.id < :last")
            parameters |= {"until": in_utc(self.until), "last": _id_at(self.until, _CLOCKS_MAY_DIFFER)}
        return " AND ".join(where), parameters

    def to_json(self) -> dict[str, Any]:
        """The given conditions as JSON, for the `filter` column of a redrive."""
        conditions = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in conditions.items()
            if value is not None
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> LetterFilter:
        """The filter that `to_json` turned into JSON."""
        times = {name: datetime.fromisoformat(stored[name]) for name in ("since", "until") if name in stored}
        return cls(**{**stored, **times})


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EQUAL = ("pipeline_id", "task_id", "error_code", "fingerprint")


# The last moment of an id's 48 bits is in the year 10889, the last of a datetime in 9999.
def _id_at(moment: datetime, later: timedelta) -> UUID:
    seconds = (in_utc(moment) - _EPOCH).total_seconds() + later.total_seconds()
    return ids.first_id_at(max(0, int(seconds * 1000)))
