"""Stores and reads when the last tick was, and what each of its chores did then.

Operators see here that nothing drives a deployment any more, or that a chore fails. The time is judged by the
clock of the database alone, as it is for workers (registry/worker_processes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.errors import Busy, PartlyFailed, PipeWeaveError
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Unfinished
from pipeweave.orchestrator.store.leases import TICK, Lease
from pipeweave.settings import Settings

# The tick is missed when it is this late, or this many intervals.
LATE_AFTER = timedelta(seconds=10)
LATE_INTERVALS = 5
# A tick that had nothing to do is noted when the last note is this old: of ticks that come each second, the
# third. Together with the time in which another process takes over, it is less than LATE_AFTER.
NOTE_AFTER = timedelta(seconds=2.5)
# A chore that failed at so many ticks in a row is more than a passing trouble.
REPEATED = 3
# A chore takes milliseconds; after this long the chores behind it wait noticeably.
SLOW = timedelta(seconds=5)
# PostgreSQL ends a transaction that does nothing long before: after this long, one that works holds the rows.
SKIPPED_LONG = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class ChoreResult:
    """What one chore did in one tick.

    Args:
        chore: its name.
        done: how much it did.
        took: how long it ran.
        error_code: None when nothing failed; the code of a PipeWeave error, else the name of the exception.
        error: a sentence that names no host and repeats no user's data.
        skipped: how many items it left out, because another transaction held their rows.
    """

    chore: str
    done: int
    took: timedelta
    error_code: str | None = None
    error: str | None = None
    skipped: int = 0

    @property
    def is_through(self) -> bool:
        """Whether nothing is left for the next tick."""
        return self.error_code is None and not self.skipped and not isinstance(self.done, Unfinished)

    @classmethod
    def of_nothing(cls, chore: str) -> ChoreResult:
        """The result of a chore that has nothing to do."""
        return cls(chore, 0, timedelta())

    @classmethod
    def of(cls, chore: str, done: int, took: timedelta, failure: Exception | None) -> ChoreResult:
        """The result of a chore that ended, with the failure or without."""
        raised = failure.failures if isinstance(failure, PartlyFailed) else [failure] if failure else []
        failures = [each for each in raised if not isinstance(each, Busy)]
        skipped = len(raised) - len(failures)
        if not failures:
            return cls(chore, done, took, skipped=skipped)
        code, sentence = _described(failures[0])
        if isinstance(failure, PartlyFailed):
            sentence = f"{len(failures)} of its items failed, first: {sentence}"
        return cls(chore, done, took, code, sentence, skipped)


def _described(failure: Exception) -> tuple[str, str]:
    """The code and the title of an error. Its detail may name hosts: that is for the log."""
    if isinstance(failure, PipeWeaveError):
        return failure.code, failure.title
    return type(failure).__name__, f"{type(failure).__name__} was raised."


def noting_the_time(condition: str) -> str:
    """SQL: the members of a WITH that store that a tick ends now; the last one, `timed`, gives the mode.

    It does not wait for the row of the mode: a transaction that changes the mode may be that of a host that
    vanished.

    Args:
        condition: SQL: what follows FROM; without a row nothing is stored.
    """
    return f"""free AS MATERIALIZED (
    SELECT o.ctid FROM {condition}, orchestrator_state AS o FOR NO KEY UPDATE OF o SKIP LOCKED
), timed AS (
    UPDATE orchestrator_state AS o SET last_tick_at = now() FROM free AS f WHERE o.ctid = f.ctid
    RETURNING o.mode
)"""


# SQL: whether a tick was noted a moment ago. What lies ahead was noted by a clock that went ahead.
IS_NOTED = f"""EXISTS (SELECT 1 FROM orchestrator_state AS o WHERE o.last_tick_at
    BETWEEN now() - interval '{NOTE_AFTER.total_seconds()} seconds' AND now())"""


# A process that lost its lease writes nothing.
_NOTE = f"""
WITH mine AS MATERIALIZED (
    SELECT 1 WHERE CAST(:number AS bigint) IS NULL
        OR EXISTS (SELECT 1 FROM leases AS l
            WHERE l.name = :lease AND l.number = :number AND l.holder = :holder)
), noted AS (
    INSERT INTO tick_chores AS c (name, ran_at, took_ms, failures, errors, failed_at, error_code, error,
        skipped, skipped_since, done)
    SELECT r.name, now(), r.took_ms, (r.error_code IS NOT NULL)::int, (r.error_code IS NOT NULL)::int,
           CASE WHEN r.error_code IS NOT NULL THEN now() END, r.error_code, r.error, r.skipped,
           CASE WHEN r.skipped > 0 THEN now() END, r.done
    FROM mine, unnest(CAST(:names AS text[]), CAST(:took_ms AS bigint[]), CAST(:codes AS text[]),
                CAST(:errors AS text[]), CAST(:skipped AS bigint[]), CAST(:done AS bigint[]))
            AS r(name, took_ms, error_code, error, skipped, done)
    ON CONFLICT (name) DO UPDATE SET ran_at = EXCLUDED.ran_at, took_ms = EXCLUDED.took_ms,
        failures = CASE WHEN EXCLUDED.failures = 0 THEN 0 ELSE c.failures + 1 END,
        errors = c.errors + EXCLUDED.errors, failed_at = coalesce(EXCLUDED.failed_at, c.failed_at),
        error_code = coalesce(EXCLUDED.error_code, c.error_code), error = coalesce(EXCLUDED.error, c.error),
        skipped = EXCLUDED.skipped, done = c.done + EXCLUDED.done,
        skipped_since = CASE WHEN EXCLUDED.skipped > 0 THEN coalesce(c.skipped_since, now()) END
), ended AS (
    UPDATE leases AS l SET ends_at = clock_timestamp() FROM mine
    WHERE l.name = :lease AND l.number = :number AND l.holder = :holder
), {noting_the_time("mine")}
SELECT mode FROM timed
"""


def record(tx: Transaction, results: Sequence[ChoreResult] = (), lease: Lease | None = None) -> str | None:
    """Store that a tick ended now, and what its chores did.

    Args:
        lease: of the tick, given back with this; nothing is stored when it is lost.

    Returns:
        The maintenance mode; None when it is being changed, or when the lease is lost.
    """
    parameters = {
        "names": [result.chore for result in results],
        "took_ms": [result.took // timedelta(milliseconds=1) for result in results],
        "codes": [result.error_code for result in results],
        "errors": [result.error for result in results],
        "skipped": [result.skipped for result in results],
        "done": [result.done for result in results],
        "lease": TICK,
        "number": None if lease is None else lease.number,
        "holder": None if lease is None else lease.holder,
    }
    mode: str | None = tx.execute(_NOTE, parameters).scalar_one_or_none()
    return mode


@dataclass(frozen=True, slots=True)
class LastTick:
    """The last tick of any process.

    Args:
        at: when the last one ended that was noted (NOTE_AFTER); None when there was none yet.
        age: how long ago that was.
        failing: the chores that failed at REPEATED ticks in a row, up to the last one.
    """

    at: datetime | None
    age: timedelta | None
    failing: tuple[str, ...] = ()


# SQL: the names of failing chores. There are about a dozen rows.
FAILING = f"ARRAY(SELECT c.name FROM tick_chores AS c WHERE c.failures >= {REPEATED} ORDER BY c.name)"
_FIND = f"SELECT last_tick_at, now() - last_tick_at AS age, {FAILING} AS failing FROM orchestrator_state"


def find(tx: Transaction) -> LastTick:
    """The last tick of any process."""
    row = tx.execute(_FIND).one()
    return LastTick(row.last_tick_at, row.age, tuple(row.failing))


@dataclass(frozen=True, slots=True)
class ChoreStatus:
    """What is stored of a chore.

    Args:
        name: of the chore.
        ran_at: when it last ran, at a tick that had anything to do.
        took: how long it last ran.
        failures: at how many ticks in a row it failed, up to the last one.
        errors: at how many ticks it ever failed.
        failed_at: when it last failed; None for never.
        error_code: of the last failure.
        error: a sentence about the last failure.
        skipped: how many items it last left out, because another transaction held their rows.
        skipped_since: the first of the ticks in a row, up to the last one, that left some out.
        done: how much it ever did.
    """

    name: str
    ran_at: datetime
    took: timedelta
    failures: int
    errors: int
    failed_at: datetime | None
    error_code: str | None
    error: str | None
    skipped: int = 0
    skipped_since: datetime | None = None
    done: int = 0


_CHORES = """
SELECT name, ran_at, took_ms, failures, errors, failed_at, error_code, error, skipped, skipped_since, done
FROM tick_chores ORDER BY name
"""


def chores(tx: Transaction) -> list[ChoreStatus]:
    """What is stored of each chore, by name."""
    return [
        ChoreStatus(
            row.name,
            row.ran_at,
            timedelta(milliseconds=row.took_ms),
            row.failures,
            row.errors,
            row.failed_at,
            row.error_code,
            row.error,
            row.skipped,
            row.skipped_since,
            row.done,
        )
        for row in tx.execute(_CHORES)
    ]


def complaint(last: LastTick, settings: Settings, watched_for: timedelta) -> str | None:
    """What is wrong with the tick, in one sentence: it is missed, or its chores fail; None when all is well.

    Args: as of `missed`.
    """
    is_missed = missed(last, settings, watched_for)
    if is_missed is None and last.failing:
        names = ", ".join(last.failing)
        return f"chores of the tick fail again and again ({names}): `pipeweave doctor` says with which error."
    return is_missed


def missed(last: LastTick, settings: Settings, watched_for: timedelta) -> str | None:
    """In one sentence, that the tick is late; None while it goes on.

    In serverless mode, where no beat drives the tick, nobody misses it.

    Args:
        last: the last tick.
        settings: the mode, and how often the tick should be.
        watched_for: before the first tick ever, for how long the asking process has been there.
    """
    late_after = max(LATE_AFTER, LATE_INTERVALS * timedelta(milliseconds=settings.poll_interval_ms))
    if settings.mode == "serverless" or (last.age or watched_for) <= late_after:
        return None
    since = "there was no tick yet" if last.age is None else f"the last tick was {_spoken(last.age)} ago"
    return f"{since}: is `pipeweave beat` running? Runs go on, but lost work is not recovered."


def _spoken(age: timedelta) -> str:
    seconds = int(age.total_seconds())
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60:,} min"


def at(database_url: str) -> datetime | None:
    """When the last tick of this database was, over a connection of its own."""
    with Database(database_url, pool_size=0).transaction() as tx:
        return find(tx).at
