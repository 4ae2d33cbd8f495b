"""Counts the past anew, run by run, while the tick goes on to count what is new.

The first transaction deletes the sums and notes where the place was then. From there on, the tick adds what
comes later; this adds what was counted by then, and events that were there before anything was counted. So
each event is counted once, whenever the two meet. How far this came is in the row of the place: whoever calls
it again goes on.

The counters of all time stay as they are, because they must never go back. So do days of months that were
dropped: their events are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.feed import consumers
from pipeweave.orchestrator.feed.feed import WRITTEN_HERE
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.telemetry.statistics import counting, fold, place

# One transaction counts so many runs, or runs of so many task runs.
RUNS = 500
TASK_RUNS = 10_000

_BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)

# Events of before the feed, and those that were restored on another server, have no number that tells: all of
# them were there when this began.
_EVENTS = f"""
SELECT e.run_id, e.seq, e.at, e.type, e.task_run_id, e.attempt, e.data
FROM events AS e CROSS JOIN stats_place AS p
WHERE e.run_id > :after AND e.run_id <= :until AND e.type = ANY(CAST(:types AS text[]))
    AND e.at >= p.rebuilt_since
    AND (e.txid IS NULL OR NOT {WRITTEN_HERE}
         OR (e.txid < p.rebuilt_before AND NOT e.txid = ANY(p.rebuilt_open)))
"""
_GROUPS = counting.groups_sql(_EVENTS)


def rebuild(database: Database, progress: Callable[[int], None] = lambda runs: None) -> int:
    """Count all events anew that there are, or go on with that.

    Args:
        progress: called with how many runs are done by this call.

    Returns:
        How many runs were looked at.
    """
    database.run(begin)
    done, more = 0, True
    while more:
        runs, more = database.run(count_some)
        done += runs
        progress(done)
    return done


_LOCK = """
SELECT s.rebuilt_before IS NOT NULL AS is_under_way, s.rebuilt_after
FROM feed_consumers AS p CROSS JOIN stats_place AS s WHERE p.name = 'statistics' FOR NO KEY UPDATE
"""
_DROPPED = "SELECT d.month FROM dropped_months AS d"
_DELETE_RUNS = "DELETE FROM run_stats WHERE grain <> 'ever' AND at >= :since"
_DELETE_TASKS = "DELETE FROM task_stats WHERE grain <> 'ever' AND at >= :since"
_BEGIN = """
UPDATE stats_place SET rebuilt_before = p.before, rebuilt_open = p.open, rebuilt_since = :since,
    rebuilt_after = CAST('00000000-0000-0000-0000-000000000000' AS uuid)
FROM feed_consumers AS p WHERE p.name = 'statistics'
"""


def begin(tx: Transaction) -> None:
    """Delete the sums, unless that was done and they are being counted anew."""
    if tx.execute(_LOCK).one().is_under_way:
        return
    since = _since(tx)
    tx.execute(_DELETE_RUNS, {"since": since})
    tx.execute(_DELETE_TASKS, {"since": since})
    tx.execute(_BEGIN, {"since": since})


def _since(tx: Transaction) -> datetime:
    """When the oldest month began whose events are all there."""
    dropped = [Month.parse(each) for each in tx.execute(_DROPPED).scalars()]
    return max(each.end for each in dropped) if dropped else _BEFORE_ALL


_NEXT = f"""
SELECT count(*) AS number, max(CAST(w.id AS text)) AS until FROM (
    SELECT r.id, sum(r.task_run_count) OVER (ORDER BY r.id) - r.task_run_count AS before FROM (
        SELECT r.id, r.task_run_count FROM runs AS r WHERE r.id > :after ORDER BY r.id LIMIT {RUNS}) AS r
) AS w WHERE w.before < {TASK_RUNS}
"""
_MOVE = "UPDATE stats_place SET rebuilt_after = CAST(:until AS uuid)"
_END = """
UPDATE stats_place AS p SET rebuilt_before = NULL, rebuilt_open = NULL, rebuilt_since = NULL,
    rebuilt_after = NULL,
    since = least(p.since, (SELECT r.created_at FROM runs AS r ORDER BY r.id LIMIT 1))
"""


def count_some(tx: Transaction) -> tuple[int, bool]:
    """Count the events of the next runs.

    Returns:
        How many runs, and whether there may be more.
    """
    state = tx.execute(_LOCK).one()
    if not state.is_under_way:
        return 0, False
    row = tx.execute(_NEXT, {"after": state.rebuilt_after}).one()
    if row.until is None:
        tx.execute(_END)
        consumers.forget_missed(tx, place.CONSUMER)
        return 0, False
    parameters = {"after": state.rebuilt_after, "until": row.until, "types": counting.TYPES}
    fold.add(tx, tx.execute(_GROUPS, parameters).all(), has_totals=False)
    tx.execute(_MOVE, {"until": row.until})
    return row.number, True
