"""Formats values for JSON: ISO times with Z, durations in ms, TypeIDs, large values by reference."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.storage import backend_of, plain_path


def iso(moment: datetime | None) -> str | None:
    """A time as `2026-11-20T22:54:19.045Z`."""
    if moment is None:
        return None
    text = moment.isoformat(timespec="milliseconds")
    if text[-6:] != "+00:00":
        text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z"


def duration_ms(started: datetime | None, finished: datetime | None) -> float | None:
    """Whole tenths of a millisecond between two times, None when one is missing."""
    if started is None or finished is None:
        return None
    return round((finished - started).total_seconds() * 1000, 1)


def run_took_ms(run: Any, now: datetime | None = None) -> float | None:
    """How long a run took (ms), from its first start to its latest end, without the time that it was over
    before it was reopened; None until it has ended.

    Args:
        run: a row with `started_at`, `finished_at` and `over_ms`. Months that were archived before that
            column existed have none.
        now: what an open run is counted to; None: it has no duration yet.
    """
    took = duration_ms(run.started_at, run.finished_at or now)
    return None if took is None else max(0.0, took - (getattr(run, "over_ms", None) or 0))


def run_id(value: UUID) -> str:
    """The TypeID of a run."""
    return ids.show(ids.RUN, value)


def task_run_id(value: UUID) -> str:
    """The TypeID of a task run."""
    return ids.show(ids.TASK_RUN, value)


def reference(path: str | None, size: int | None, digest: str | None) -> dict[str, Any] | None:
    """The place of a large value in storage; None for a value in its row."""
    if path is None:
        return None
    return {"path": plain_path(path), "backend": backend_of(path), "size": size, "hash": digest}
