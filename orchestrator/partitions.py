"""Monthly partitions of the history tables, made ahead of time.

The bound of a partition is the lowest UUIDv7 of a month, so one id tells where a run and all its rows live.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pipeweave import ids
from pipeweave.orchestrator.database import Transaction

PARTITIONED = ("runs", "task_runs", "attempts", "events")

# Two months ahead: a deployment whose tick stood still for weeks still finds a partition to write to.
MONTHS_AHEAD = 2

# A status changes two or three times in a row's life: room on the page keeps the new versions near the old.
_STORAGE = {"runs": "WITH (fillfactor = 80)", "task_runs": "WITH (fillfactor = 70)"}


def ensure(tx: Transaction, now: datetime, months_ahead: int = MONTHS_AHEAD) -> list[str]:
    """Make the partitions of this month and the next ones. Returns the names of those that were missing.

    A default partition catches ids outside every month, so that an insert never fails for want of one.
    """
    made = []
    existing = {
        row[0] for row in tx.execute("SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'")
    }
    for table in PARTITIONED:
        for name, bounds in _partitions(table, now, months_ahead):
            if name not in existing:
                tx.execute(f"CREATE TABLE {name} PARTITION OF {table} {bounds} {_STORAGE.get(table, '')}")
                made.append(name)
    return made


def _partitions(table: str, now: datetime, months_ahead: int) -> list[tuple[str, str]]:
    found = [(f"{table}_default", "DEFAULT")]
    start = datetime(now.year, now.month, 1, tzinfo=UTC)
    for _ in range(months_ahead + 1):
        end = _next_month(start)
        found.append((f"{table}_{start:%Y_%m}", f"FOR VALUES FROM ('{_bound(start)}') TO ('{_bound(end)}')"))
        start = end
    return found


def _next_month(start: datetime) -> datetime:
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def _bound(moment: datetime) -> str:
    return str(ids.first_id_at(int(moment.timestamp() * 1000)))
