"""A database in a May with runs in March and April, and the archive of what was retired."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import (
    drop_months,
    partitions,
)
from pipeweave.orchestrator.retention.drop_months import MonthResult
from pipeweave.orchestrator.retention.partitions import PARTITIONED
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.storage.local import LocalStorage
from support.aged_rows import at, count, past_run

MARCH, APRIL = Month(2031, 3), Month(2031, 4)
IN_MARCH, IN_APRIL = at("2031-03-15"), at("2031-04-15")
# A month after March, and not yet one after April.
NOW = at("2031-05-02")
THIRTY_DAYS = Policy(timedelta(days=30))


class ArchivingDatabase(Database):
    """A database whose months are archived in a folder."""

    archives: LocalStorage


class Clock:
    """A clock the test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def fill(database: Database, *moments: datetime, **options: Any) -> list[UUID]:
    """Write a finished run for each moment; their ids. `options` are those of `past_run`."""
    with database.transaction() as tx:
        return [past_run(tx, moment, **options) for moment in moments]


def retire(database: ArchivingDatabase, policy: Policy = THIRTY_DAYS, **options: Any) -> list[MonthResult]:
    """Archive and drop the months that are due; `options` are those of `drop_months.run_once`."""
    return drop_months.run_once(database, database.archives, policy, **{"tries": 1, **options})


def tables(database: Database, month: Month) -> set[str]:
    """Which partitioned tables have a partition of the month."""
    with database.transaction() as tx:
        return {each.parent for each in partitions.list_partitions(tx) if each.month == month}


def rows(database: Database) -> list[int]:
    """How many rows each partitioned table has."""
    with database.transaction() as tx:
        return [count(tx, each) for each in PARTITIONED]


def lines_of(storage: LocalStorage, month: Month = MARCH, tail: str = "") -> list[dict[str, Any]]:
    """The lines of a month's archive, read as anyone would: from files of gzipped lines."""
    folder = storage.root / "archive" / "runs" / f"{month}{tail}"
    files = sorted(folder.glob("part-*.ndjson.gz"))
    return [json.loads(line) for file in files for line in gzip.open(file, "rt", encoding="utf-8")]


def manifest_of(storage: LocalStorage, month: Month = MARCH, tail: str = "") -> dict[str, Any]:
    """The manifest of a month's archive."""
    found: dict[str, Any] = json.loads(
        (storage.root / "archive" / "runs" / f"{month}{tail}" / "manifest.json").read_text()
    )
    return found


class Crash(Exception):
    """The process died here."""


def crash(*_: object) -> None:
    """Put in the place of a function before which the process dies."""
    raise Crash


def assert_not_found(tx: Transaction, run_id: UUID) -> None:
    """Every way to look at the run, and cancelling it, says that it is not found."""
    page = reading.PageRequest()
    looks: list[Callable[[], object]] = [
        lambda: reading.run(tx, "default", run_id),
        lambda: reading.run_events(tx, "default", run_id, page),
        lambda: reading.run_task_runs(tx, "default", run_id, page),
        lambda: reading.task_run(tx, "default", ids.task_run_id(run_id, 1)),
        lambda: triggering.cancel(tx, "default", run_id),
    ]
    for look in looks:
        with pytest.raises(NotFound):
            look()
    assert reading.run_list(tx, "default", page)["items"] == []
