"""Says how much history lies in the tables, and whether a sample of it agrees with its events."""

from __future__ import annotations

import time
from itertools import islice
from uuid import UUID

from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.diagnosis import run_verification, verify
from pipeweave.orchestrator.documents.deployment import MonthAnswer, MonthsAnswer, SampleAnswer
from pipeweave.orchestrator.retention import Policy, month_status
from pipeweave.orchestrator.retention.month_status import MonthOnDisk
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document

# Runs of a sample at most, and seconds for all of them.
MOST_RUNS = 200
SAMPLE_S = 5.0


def months(tx: Transaction, policy: Policy) -> Document:
    """The months of history, oldest first, with their sizes and what becomes of them.

    Rows are PostgreSQL's estimates: counting them would take as long as there is history.
    """
    days = None if policy.runs is None else policy.runs.days
    documents = [_month(tx, each, policy) for each in month_status.months_on_disk(tx)]
    return MonthsAnswer.of(months=documents, retention_days=days, is_archived=policy.is_archived)


def _month(tx: Transaction, on_disk: MonthOnDisk, policy: Policy) -> Document:
    return MonthAnswer.of(
        month=str(on_disk.month),
        **{table: max(0, on_disk.rows.get(table, 0)) for table in _COUNTED},
        bytes=on_disk.size,
        policy=_word(tx, on_disk, policy),
        due_at=policy.due_at(on_disk.month),
    )


_COUNTED = ("runs", "task_runs", "attempts", "events")


def _word(tx: Transaction, on_disk: MonthOnDisk, policy: Policy) -> str:
    if on_disk.is_leaving:
        return "leaving"
    if not policy.is_due(on_disk.month, tx.now):
        return "kept"
    return "active" if month_status.active_runs(tx, on_disk.month, 1) else "due"


def sample(database: Database, limit: int) -> Document:
    """Verify the newest runs of all tenants, within SAMPLE_S.

    A run with too many events for a request is skipped, and so is one whose month is dropped meanwhile.
    """
    ends = time.monotonic() + SAMPLE_S
    verified, skipped, differing = 0, 0, list[Document]()
    with database.reading() as tx:
        now, chosen = tx.now, list(islice(verify.run_ids(tx), limit))
    for each in chosen:
        if time.monotonic() >= ends:
            break
        comparison = _verified(database, each)
        if comparison is None:
            skipped += 1
            continue
        verified += 1
        if not comparison["isEqual"]:
            differing.append(comparison)
    return SampleAnswer.of(
        verified=verified,
        skipped=skipped,
        differing=differing,
        is_complete=verified + skipped == len(chosen),
        oldest_run_id=chosen[verified + skipped - 1] if verified + skipped else None,
        verified_at=now,
    )


def _verified(database: Database, id: UUID) -> Document | None:
    try:
        with database.reading() as tx:
            return run_verification.verified_of_any(tx, id)
    except (LimitExceeded, NotFound):
        return None
