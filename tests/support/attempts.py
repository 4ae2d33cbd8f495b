"""Runs of one step whose attempts fail."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from support.run_driver import RunDriver


def first(driver: RunDriver, run_id: UUID) -> Any:
    """The row of a run's first task run."""
    return driver.task_runs(run_id)[0]


def kept(driver: RunDriver, run_id: UUID) -> list[tuple[int, str, str]]:
    """The attempts of a run that ended badly: number, status, error code."""
    rows = driver.rows("SELECT * FROM attempts WHERE run_id = :id ORDER BY number", id=run_id)
    return [(row.number, row.status, row.error_code) for row in rows]
