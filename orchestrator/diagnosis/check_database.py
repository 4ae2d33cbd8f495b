"""Doctor's checks of PostgreSQL: version, schema, partitions, clock and connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from pipeweave.errors import Conflict, InvalidSetting
from pipeweave.orchestrator.deployment import schema_check
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, error, fine, warning
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.retention import default_partition, partitions
from pipeweave.orchestrator.store.database import BESIDE, FOLLOWING, RESERVED, TICKING, Database, Transaction
from pipeweave.settings import Settings

MIN_MAJOR = 15
# PostgreSQL's clock alone decides. But with larger differences logs cannot be compared, and object storage
# refuses requests.
CLOCK_WARNING = timedelta(seconds=1)
CLOCK_ERROR = timedelta(seconds=5)
# Database connections (docs/operations.md) of a worker, of each of its children, and of beat.
PER_WORKER, PER_CHILD, BEAT = 1, 1, 5 + BESIDE
CROWDED = 0.9


@contextmanager
def read_transaction(settings: Settings) -> Iterator[Transaction]:
    """A read-only transaction over its own connection, with a statement timeout.

    Raises:
        InvalidSetting: DATABASE_URL is not set.
        Unavailable: PostgreSQL cannot be reached.
    """
    if not settings.database_url:
        raise InvalidSetting(
            "DATABASE_URL is not set", hint="set it to postgresql://user:password@host:port/name"
        )
    database = Database(settings.database_url, pool_size=1)
    try:
        with database.reading() as tx:
            yield tx
    finally:
        database.dispose()


def reachable(settings: Settings) -> Verdict:
    """PostgreSQL answers, and is new enough."""
    with read_transaction(settings) as tx:
        number = int(tx.execute("SHOW server_version_num").scalar_one())
        version = str(tx.execute("SHOW server_version").scalar_one()).partition(" ")[0]
        where = tx.server + urlsplit(settings.database_url or "").path
    if number < MIN_MAJOR * 10_000:
        return error(
            f"PostgreSQL {version} at {where} is too old",
            f"PostgreSQL {MIN_MAJOR} is the oldest version that works",
        )
    return fine(f"PostgreSQL {version} at {where}")


def schema(settings: Settings) -> Verdict:
    """The schema is the one that this version needs."""
    try:
        status = schema_check.status(settings.database_url or "")
    except Conflict:
        return error(
            "the schema is newer than this version of PipeWeave", "install the version that migrated it"
        )
    if status.is_current:
        return fine(f"the schema is current: {status.current}")
    pending = ", ".join(status.pending)
    return error(
        f"the schema is at {status.current or 'no version'}; pending: {pending}", "run `pipeweave db migrate`"
    )


def partitions_ahead(settings: Settings) -> Verdict:
    """There are partitions for this month and the next ones."""
    with read_transaction(settings) as tx:
        # A missing partition of a coming month is a warning; of this month, an error.
        now = [each for each in partitions.missing(tx, tx.now, 0)]
        ahead = partitions.missing(tx, tx.now)
    if now:
        return error(
            "this month's partitions are missing",
            "run `pipeweave db migrate`; then keep `pipeweave beat` running",
        )
    if ahead:
        names = ", ".join(str(each.month) for each in ahead)
        return warning(
            f"partitions are missing: {names}", "start `pipeweave beat`, or run `pipeweave db migrate`"
        )
    return fine(f"partitions exist, {partitions.MONTHS_AHEAD} months ahead")


def default_partitions(settings: Settings) -> Verdict:
    """The default partitions are empty."""
    with read_transaction(settings) as tx:
        counts = default_partition.count_misplaced(tx, partitions.PARTITIONED, most=1_000)
    if not counts:
        return fine("the default partitions are empty")
    shown = ", ".join(f"{each.rows:,} {each.parent} of {each.month}" for each in counts[:4])
    return warning(
        f"the default partitions hold rows: {shown}",
        "check the clocks of all hosts; `pipeweave db migrate` moves them to their months",
    )


def clock(settings: Settings) -> Verdict:
    """This host and PostgreSQL agree on the time."""
    with read_transaction(settings) as tx:
        tx.execute("SELECT 1")
        before = datetime.now(UTC)
        theirs: datetime = tx.execute("SELECT clock_timestamp()").scalar_one()
        after = datetime.now(UTC)
    # The difference beyond what the round trip can explain.
    ahead = theirs - after if theirs > after else before - theirs if theirs < before else timedelta()
    side = "behind" if theirs > after else "ahead of"
    shown = f"this host's clock is {ahead.total_seconds():.1f} s {side} PostgreSQL's"
    if ahead < CLOCK_WARNING:
        return fine("this host and PostgreSQL agree on the time")
    hint = "run NTP on every host"
    return error(shown, hint) if ahead >= CLOCK_ERROR else warning(shown, hint)


_CONNECTIONS = """
SELECT CAST(current_setting('max_connections') AS integer)
       - CAST(current_setting('superuser_reserved_connections') AS integer) AS most,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used
"""

_WORKERS = """
SELECT count(*) AS number, coalesce(sum(concurrency), 0) AS children FROM workers
WHERE stopped_at IS NULL AND heartbeat_at >= now() - CAST(:after AS interval)
"""


def connections(settings: Settings) -> Verdict:
    """PostgreSQL allows as many connections as the processes may use."""
    with read_transaction(settings) as tx:
        row = tx.execute(_CONNECTIONS).one()
        alive = tx.execute(_WORKERS, {"after": worker_processes.LOST_AFTER}).one()
    api = settings.db_pool_max + max(1, settings.db_pool_max // 2) + RESERVED + TICKING + FOLLOWING
    needed = api + BEAT + PER_WORKER * alive.number + PER_CHILD * int(alive.children)
    users = f"an API process, beat and the workers ({alive.number})"
    shown = f"{row.used} of {row.most} in use; {users} may use {needed}"
    hint = "raise max_connections of PostgreSQL, or lower DB_POOL_MAX and the workers' concurrency"
    if row.used >= CROWDED * row.most or needed > row.most:
        return warning(shown, hint)
    return fine(shown)


CHECKS = (
    Check("database", reachable),
    Check("schema", schema, needs=("database",)),
    Check("partitions", partitions_ahead, needs=("schema",)),
    Check("default partitions", default_partitions, needs=("schema",)),
    Check("clock", clock, needs=("database",)),
    Check("connections", connections, needs=("schema",)),
)
