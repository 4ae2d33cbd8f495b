"""A database with months of history, and counters of what is read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import history
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.recovery import tick
from pipeweave.orchestrator.starts import event_consumer
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.storage.local import LocalStorage
from pipeweave.up.postgres import Postgres
from support.counted_events import fold_all
from support.empty_broker import NOWHERE, EmptyBroker
from support.plans import flush_counters
from support.run_driver import Clock, RunDriver
from support.servers import new_database
from support.stored_values import values_in

TENANT = "default"
RUNS = 14_000
# Partitions with fewer rows than this may be read whole.
SMALL = 500
# Often enough that every statement is sent as a prepared one, too.
TIMES = 6
DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@dataclass(frozen=True, slots=True)
class Read:
    """What was done to one partition: scans from end to end, looks into an index, rows fetched."""

    whole: int
    looks: int
    rows: int

    def __sub__(self, before: Read) -> Read:
        return Read(self.whole - before.whole, self.looks - before.looks, self.rows - before.rows)


@dataclass(frozen=True, slots=True)
class HistoryDatabase:
    """A database with history, and what is done there."""

    driver: RunDriver
    deployment: Deployment
    clock: Clock
    tail: str

    def reads(self, work: Callable[[HistoryDatabase], object], times: int = TIMES) -> dict[str, Read]:
        """What the work reads of each partition that has many rows."""
        # What earlier tests wrote is counted into the statistics first, and has fired.
        fold_all(self.driver.database)
        event_consumer.run_once(self.driver.database)
        before = self._counted()
        for _ in range(times):
            work(self)
        after = self._counted()
        return {name: after[name] - before[name] for name in before}

    def is_past(self, partition: str) -> bool:
        """Whether the partition is of a month that is over."""
        return not partition.endswith(self.tail)

    def _counted(self) -> dict[str, Read]:
        database = self.driver.database
        flush_counters(database)
        with database.transaction() as tx:
            return {row.relname: Read(*row[1:]) for row in tx.execute(_COUNTERS, {"small": SMALL})}


_COUNTERS = """
SELECT s.relname, s.seq_scan, COALESCE(s.idx_scan, 0), s.seq_tup_read + COALESCE(s.idx_tup_fetch, 0)
FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid
WHERE c.relispartition AND c.reltuples > :small
"""


@contextmanager
def database_with_history(postgres: Postgres, template: str, folder: Path) -> Iterator[HistoryDatabase]:
    """A database with finished runs over the partitions of several months.

    Args:
        postgres: the server that gets the database.
        template: the name of a migrated database to copy.
        folder: where values go.
    """
    with new_database(postgres, "hot-plans", template) as url:
        history.fill(url, RUNS, "diamond")
        clock = Clock()
        database = Database(url, pool_size=2, react=reactions_to, now=clock)
        values = values_in(LocalStorage(folder))
        driver = RunDriver(database, TENANT, values=values)
        driver.store(DIAMOND, id="diamond")
        driver.store({"a": []}, id="limited", tasks={"a": "limited"})
        driver.store({"a": [], "m": ["a"]}, id="mapped", maps={"m": "${steps.a}"})
        # The newest run is one with the steps of its pipeline, in whatever order the tests come.
        driver.trigger("diamond")
        settings = Settings(database_url=url, broker_url=NOWHERE)
        deployment = Deployment(settings, database, values, EmptyBroker(settings))
        tick.run_once(deployment)  # what is done once an hour is not what is measured here
        tail = f"{datetime.now(UTC) - history.NEWEST_AGE:%Y_%m}"
        yield HistoryDatabase(driver, deployment, clock, tail)
        database.dispose()
