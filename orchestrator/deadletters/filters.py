"""Which dead letters are meant: the same words to list, to retry and to discard them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids

# SQL of a dead letter that was neither retried nor discarded; partial indexes are made for it.
OPEN = "d.retried_at IS NULL AND d.discarded_at IS NULL"

# A letter's id is made a little before its `failed_at`, on another host's clock: so far the two may differ.
_CLOCKS_MAY_DIFFER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Dead letters for which all that is given holds.

    Args:
        pipeline_id: of the run.
        task_id: of the task run.
        error_code: of the last attempt.
        fingerprint: equal for errors that are alike (hex SHA-256).
        since: failed at this time or later.
        until: failed earlier than this time.
    """

    pipeline_id: str | None = None
    task_id: str | None = None
    error_code: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every dead letter is meant."""
        return not self.to_json()

    def sql(self, tenant: str) -> tuple[str, dict[str, Any]]:
        """A condition on the rows `d` of a tenant, and its parameters."""
        where = ["d.tenant_id = :tenant"]
        where += [f"d.{name} = :{name}" for name in _EQUAL if getattr(self, name) is not None]
        parameters: dict[str, Any] = {"tenant": tenant, **{name: getattr(self, name) for name in _EQUAL}}
        # Ids are ordered by time: the bounds end a list where it would read on for nothing.
        if self.since is not None:
            where.append("d.failed_at >= :since AND d.id >= :first")
            parameters |= {"since": _utc(self.since), "first": _id_at(self.since, -_CLOCKS_MAY_DIFFER)}
        if self.until is not None:
            where.append("d.failed_at < :until AND d.id < :last")
            parameters |= {"until": _utc(self.until), "last": _id_at(self.until, _CLOCKS_MAY_DIFFER)}
        return " AND ".join(where), parameters

    def to_json(self) -> dict[str, Any]:
        """What is given, for a row that keeps it."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in given.items()
            if value is not None
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> LetterFilter:
        """The filter that `to_json` kept."""
        times = {name: datetime.fromisoformat(kept[name]) for name in ("since", "until") if name in kept}
        return cls(**{**kept, **times})


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EQUAL = ("pipeline_id", "task_id", "error_code", "fingerprint")


def _utc(moment: datetime) -> datetime:
    """PostgreSQL knows fewer time zones, Python fewer years."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


# The last moment of an id's 48 bits is in the year 10889, the last of a datetime in 9999.
def _id_at(moment: datetime, later: timedelta) -> UUID:
    seconds = (_utc(moment) - _EPOCH).total_seconds() + later.total_seconds()
    return ids.first_id_at(max(0, int(seconds * 1000)))
