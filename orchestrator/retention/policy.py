"""The retention policy: how long history and dead letters are kept (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.orchestrator.domain.months import Month
from pipeweave.settings import Settings

# The row of a stopped worker is kept at least this long: the uptime of the last 30 days is read from it.
WORKERS_KEPT = timedelta(days=31)
# The row of a deleted upload says for this long that it was deleted.
UPLOADS_KEPT = timedelta(days=30)
# A fire of a schedule is kept as long as the month of its run, and this much longer.
A_MONTH = timedelta(days=31)
FOR_EVER = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Policy:
    """How long history and dead letters are kept.

    Args:
        runs: how long a month's history is kept after the month ended; None: for ever.
        is_archived: whether a month is written to storage before it is dropped.
        dead_letters: how long a dead letter is kept after its failure, open, retried or discarded.
        workers: how long the row of a stopped worker is kept: an operator can see what it was, and the tick
            when the last worker with a task was alive.
        uploads: how long the row of a deleted upload is kept.
        audit: how long a row of the audit is kept; None: as a fire.
    """

    runs: timedelta | None = None
    is_archived: bool = True
    dead_letters: timedelta = timedelta(days=30)
    workers: timedelta = WORKERS_KEPT
    uploads: timedelta = UPLOADS_KEPT
    audit: timedelta | None = None

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        """The policy that the settings give."""
        audit = settings.audit_retention_days
        days = settings.run_retention_days
        return cls(
            None if days is None else timedelta(days=days),
            settings.archive_runs,
            timedelta(days=settings.dlq_retention_days),
            max(WORKERS_KEPT, timedelta(seconds=settings.task_removed_after_seconds or 0, days=1)),
            audit=None if audit is None else timedelta(days=audit),
        )

    @property
    def fires(self) -> timedelta:
        """How long the note of a fire of a schedule or a trigger is kept: longer than its run."""
        return FOR_EVER if self.runs is None else self.runs + A_MONTH

    def due_at(self, month: Month) -> datetime | None:
        """When a month may be dropped; None: never."""
        return None if self.runs is None else month.end + self.runs

    def is_due(self, month: Month, now: datetime) -> bool:
        """Whether all of a month is older than the policy."""
        due_at = self.due_at(month)
        return due_at is not None and due_at <= now
