"""What runs cost must not grow with what is over: verbs, ticks and pages leave finished history alone.

PostgreSQL's own counters say which partitions were looked at and how many rows were fetched there, however
the statements are written. The history: finished runs over the partitions of several months.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.run_driver import PERMANENT, Clock, RunDriver, claim, finish_task_run, header
from support.servers import new_database

from benchmarks import history
from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import repeated_ticks, stalled, verify, why
from pipeweave.orchestrator.domain.task_run import Awaits, Completion, TaskRun
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.messaging.celery_app import LEVELS, make_celery
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.queueing import limits, maintenance_mode, pauses, priorities
from pipeweave.orchestrator.reading import maintenance
from pipeweave.orchestrator.recovery import lost_messages, tick
from pipeweave.orchestrator.runs import admission, standalone_tasks, triggering
from pipeweave.orchestrator.runs.reactions import reactions_to
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Page, cursor_of
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings
from pipeweave.storage.local import LocalStorage
from pipeweave.up.postgres import Postgres

TENANT = "default"
RUNS = 14_000
# Partitions with fewer rows than this may be read whole.
SMALL = 500
# Often enough that every statement is sent as a prepared one, too.
TIMES = 6
# Rows of a past month that planning one call's statements may peek at.
PEEKS = 2
# Rows of this month that one verb may fetch, its own and those of the few runs of the same test included.
FEW = 100

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


class EmptyQueues(Publisher):
    """A broker that lost every message."""

    def oldest(self, queue: str) -> dict[int, float | None]:
        return dict.fromkeys(LEVELS)


@dataclass(frozen=True, slots=True)
class Read:
    """What was done to one partition: scans from end to end, looks into an index, rows fetched."""

    whole: int
    looks: int
    rows: int

    def __sub__(self, before: Read) -> Read:
        return Read(self.whole - before.whole, self.looks - before.looks, self.rows - before.rows)


@dataclass(frozen=True, slots=True)
class Stand:
    """A database with history, and what is done there."""

    driver: RunDriver
    deployment: Deployment
    clock: Clock
    tail: str

    def reads(self, work: Callable[[Stand], object], times: int = TIMES) -> dict[str, Read]:
        """What the work reads of each partition that has many rows."""
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
        # The tick holds its lock on one connection and works on the other.
        with database.transaction() as one, database.transaction() as other, database.reading() as reader:
            for tx in (one, other, reader):
                tx.execute("SELECT pg_stat_force_next_flush()")
        with database.transaction() as tx:
            return {row.relname: Read(*row[1:]) for row in tx.execute(_COUNTERS, {"small": SMALL})}


_COUNTERS = """
SELECT s.relname, s.seq_scan, COALESCE(s.idx_scan, 0), s.seq_tup_read + COALESCE(s.idx_tup_fetch, 0)
FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid
WHERE c.relispartition AND c.reltuples > :small
"""


@pytest.fixture(scope="module")
def stand(
    postgres_server: Postgres, database_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    """History of months. Two connections write and one reads, so that no other has counters to give."""
    folder: Path = tmp_path_factory.mktemp("hot-plans")
    with new_database(postgres_server, "hot-plans", database_template) as url:
        history.fill(url, RUNS, "diamond")
        clock = Clock()
        database = Database(
            url, pool_size=2, values=Values(LocalStorage(folder)), react=reactions_to, now=clock
        )
        driver = RunDriver(database, TENANT)
        driver.store(DIAMOND, id="diamond")
        driver.store({"a": []}, id="limited", tasks={"a": "limited"})
        driver.store({"a": [], "m": ["a"]}, id="mapped", maps={"m": "${steps.a}"})
        # The newest run is one with the steps of its pipeline, in whatever order the tests come.
        driver.trigger("diamond")
        settings = Settings(database_url=url, broker_url="redis://127.0.0.1:1/0")
        deployment = Deployment(
            settings, database, database.values_or_raise, EmptyQueues(make_celery(settings))
        )
        tick.run_once(deployment)  # what is done once an hour is not what is measured here
        tail = f"{datetime.now(UTC) - history.NEWEST_AGE:%Y_%m}"
        yield Stand(driver, deployment, clock, tail)
        database.dispose()


@pytest.fixture(autouse=True)
def _nothing_open(stand: Stand) -> None:
    """Runs that an earlier test left open: a tick must look at them."""
    opened = stand.driver.rows("SELECT id, pipeline_id FROM runs WHERE status = 'running'")
    for row in opened:
        with stand.driver.database.transaction() as tx:
            if row.pipeline_id is None:
                triggering.cancel_task(tx, TENANT, ids.task_run_id(row.id, 1))
            else:
                triggering.cancel(tx, TENANT, row.id)


# --- verbs that know their run ----------------------------------------------------------------------------


def trigger(stand: Stand) -> UUID:
    return stand.driver.trigger("diamond")


def trigger_many(stand: Stand) -> None:
    with stand.driver.database.transaction() as tx:
        triggering.trigger_many(tx, TENANT, "diamond", [triggering.Trigger("diamond", n) for n in range(5)])


def trigger_again(stand: Stand) -> None:
    stand.driver.trigger("diamond", run_token="once")


def enqueue(stand: Stand) -> None:
    with stand.driver.database.transaction() as tx:
        standalone_tasks.enqueue(tx, TENANT, [QueueRequest("noop", 1)])


def complete(stand: Stand) -> None:
    """Claims, completions and releases, to the end of a run."""
    stand.driver.finish(trigger(stand), "a", "b", "c", "d")


def complete_map(stand: Stand) -> None:
    """A list of three, its items and the end."""
    run_id = stand.driver.trigger("mapped")
    stand.driver.finish(run_id, "a", output=[1, 2, 3])
    for row in stand.driver.task_runs(run_id)[2:]:
        with stand.driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ids.ordinal_of(row.id))


def fail(stand: Stand) -> None:
    stand.driver.finish(trigger(stand), "a", failure=PERMANENT)


def cancel(stand: Stand) -> None:
    run_id = trigger(stand)
    with stand.driver.database.transaction() as tx:
        triggering.cancel(tx, TENANT, run_id)


def check_join(stand: Stand) -> None:
    run_id = trigger(stand)
    stand.driver.finish(run_id, "a")
    stand.driver.check(run_id, 4)


def started(stand: Stand) -> TaskRun:
    """The first task run of a run of its own, claimed."""
    run_id = trigger(stand)
    with stand.driver.database.transaction() as tx:
        found = claim(tx, run_id, 1)
    assert found is not None
    return found


def take_keys(stand: Stand) -> None:
    """One takes a key, another finds it taken, a third one finds its result."""
    key = str(ids.new_id())
    one, other, third = (started(stand) for _ in range(3))
    with stand.driver.database.transaction() as tx:
        assert idempotency.claim(tx, TENANT, one, key) is None
        assert isinstance(idempotency.claim(tx, TENANT, other, key), Awaits)
        tx.execute(
            """UPDATE idempotency_claims SET finished_at = now(), output_hash = '', output_size = 0,
                expires_at = now() + interval '1 h' WHERE key = :key""",
            {"key": key},
        )
        assert isinstance(idempotency.claim(tx, TENANT, third, key), Completion)


def enqueue_with_a_key(stand: Stand) -> None:
    """A task is queued, and once more."""
    request = QueueRequest("noop", 1, idempotency_key=str(ids.new_id()))
    for _ in range(2):
        with stand.driver.database.transaction() as tx:
            standalone_tasks.enqueue(tx, TENANT, [request])


KEYED = [
    *(trigger, trigger_many, trigger_again, enqueue, complete, complete_map, fail, cancel, check_join),
    *(take_keys, enqueue_with_a_key),
]


@pytest.mark.parametrize("verb", KEYED)
def test_a_verb_looks_only_into_the_partition_of_its_run(
    stand: Stand, verb: Callable[[Stand], object]
) -> None:
    found = stand.reads(verb)
    assert {name: read for name, read in found.items() if stand.is_past(name)} == {
        name: Read(0, 0, 0) for name in found if stand.is_past(name)
    }
    assert {name: read.whole for name, read in found.items() if read.whole} == {}
    assert max(read.rows for read in found.values()) <= TIMES * FEW


# --- what goes over all that is open ----------------------------------------------------------------------


def fill_limits(stand: Stand) -> None:
    runs_ = [stand.driver.trigger("limited") for _ in range(3)]
    with stand.driver.database.transaction() as tx:
        limits.fill(tx, TENANT, ["limited"])
    for run_id in runs_:
        stand.driver.finish(run_id, "a")


def tick_in_vain(stand: Stand) -> None:
    tick.run_once(stand.deployment)


def tick_that_heals(stand: Stand) -> None:
    """Every message is lost, and late."""
    trigger(stand)
    stand.clock.ahead += 2 * lost_messages.LATE
    tick.run_once(stand.deployment)


def pause_and_resume(stand: Stand) -> None:
    run_ids = [stand.driver.trigger("limited"), trigger(stand)]
    database = stand.driver.database
    database.run(lambda tx: pauses.pause(tx, TENANT))
    run_ids.append(trigger(stand))
    tick.run_once(stand.deployment)
    database.run(lambda tx: pauses.resume(tx, TENANT))
    for run_id in run_ids:
        database.run(lambda tx, run_id=run_id: triggering.cancel(tx, TENANT, run_id))  # type: ignore[misc]


def wait_for_their_turn(stand: Stand) -> None:
    """Three runs where one may be active: each end lets the next one start."""
    database = stand.driver.database
    database.run(lambda tx: admission.set_limit(tx, TENANT, 1))
    run_ids = [trigger(stand) for _ in range(3)]
    tick.run_once(stand.deployment)
    for run_id in run_ids:
        database.run(lambda tx, run_id=run_id: triggering.cancel(tx, TENANT, run_id))  # type: ignore[misc]
    database.run(lambda tx: admission.set_limit(tx, TENANT, None))


def give_way(stand: Stand) -> None:
    low, best = trigger(stand), stand.driver.trigger("diamond", priority=1)
    queue_name = stand.driver.task_runs(low)[0].queue
    with stand.driver.database.transaction() as tx:
        assert priorities.is_mixed(tx, queue_name)
        assert priorities.is_outranked(tx, queue_name, low, [1])
        found = priorities.better(tx, queue_name, low, [1], 1, 10)
        assert found is not None
        assert found.run_id == best
    for run_id in (low, best):
        with stand.driver.database.transaction() as tx:
            triggering.cancel(tx, TENANT, run_id)


def say_the_mode(stand: Stand) -> None:
    with stand.driver.database.reading() as tx:
        maintenance.state(tx)


def drain(stand: Stand) -> None:
    """Maintenance is asked for, a run blocks it, ends, and brings it about."""
    run_id = trigger(stand)
    database = stand.driver.database
    database.run(maintenance_mode.request)
    database.run(maintenance_mode.enter)
    with database.reading() as tx:
        assert maintenance.detailed_state(tx)["blockingTotal"] == 1
    with database.transaction() as tx:
        triggering.cancel(tx, TENANT, run_id)
    database.run(maintenance_mode.leave)


def look_for_what_stands_still(stand: Stand) -> None:
    """A message is lost, a join is due and closed."""
    trigger(stand)
    due = trigger(stand)
    with stand.driver.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET status = 'skipped', finished_at = now() WHERE run_id = :id", {"id": due}
        )
    stand.clock.ahead += 2 * stalled.LATE
    assert {"message_lost", "run_without_live_row"} <= {
        each.kind.value for each in repeated_ticks.find_stalled(stand.deployment)
    }


def wait_for_a_key(stand: Stand) -> None:
    """One waits for a key, and is woken by the end of the one that has it."""
    key = str(ids.new_id())
    holder, waiter = (started(stand) for _ in range(2))
    with stand.driver.database.transaction() as tx:
        assert idempotency.claim(tx, TENANT, holder, key) is None
        found = idempotency.claim(tx, TENANT, waiter, key)
    assert isinstance(found, Awaits)
    outcomes = [found, Completion(holder, stand.driver.database.values_or_raise.keep(1), key=key)]
    for each in outcomes:
        with stand.driver.database.transaction() as tx:
            Turn(
                header(tx, each.task_run.run_id), [each], each.task_run.queue, max_retry_delay_ms=None
            ).store(tx)
    assert stand.driver.task_runs(waiter.run_id)[0].status == "queued"


LOOKS = [
    *(pause_and_resume, wait_for_their_turn, give_way),
    *(fill_limits, tick_in_vain, tick_that_heals, say_the_mode, drain, look_for_what_stands_still),
    wait_for_a_key,
]


@pytest.mark.parametrize("work", LOOKS)
def test_queries_for_open_rows_fetch_no_final_rows(stand: Stand, work: Callable[[Stand], object]) -> None:
    found = stand.reads(work)
    past = {name: read for name, read in found.items() if stand.is_past(name)}
    assert {name: read.whole for name, read in past.items() if read.whole} == {}
    # Planning, which a session does for the first few times, peeks at the last row of an index.
    assert max(read.rows for read in past.values()) <= TIMES * PEEKS
    assert {name: read.whole for name, read in found.items() if read.whole} == {}
    assert max(read.rows for read in found.values()) <= TIMES * FEW


# --- lists and pages --------------------------------------------------------------------------------------


def newest(tx: Transaction) -> UUID:
    return ids.read(ids.RUN, reading.run_list(tx, TENANT, Page(1))["items"][0]["id"])


def months_ago(tx: Transaction, months: int) -> Page:
    """A page of the list that begins deep in the history."""
    then = tx.now - timedelta(days=30 * months)
    return Page(50, cursor_of("runs", ids.first_id_at(int(then.timestamp() * 1000))))


# A list in the order of ids begins with a look at the first row of every partition. On the first of a month
# even the newest runs are those of the last one.
FIRST = history.MONTHS
LISTED = 50 + 1 + FIRST

# What is read -> the read, and the rows it may fetch of the partitions of past months.
READS: dict[str, tuple[Callable[[Transaction], Any], int]] = {
    "runs": (lambda tx: reading.run_list(tx, TENANT, Page()), LISTED),
    "runs of a pipeline": (lambda tx: reading.run_list(tx, TENANT, Page(), pipeline_id="diamond"), LISTED),
    "runs that run": (lambda tx: reading.run_list(tx, TENANT, Page(), status="running"), LISTED),
    # One of a hundred failed: fifty of them reach months back.
    "runs that failed": (lambda tx: reading.run_list(tx, TENANT, Page(), status="failed"), 200),
    "a page deep in the runs": (lambda tx: reading.run_list(tx, TENANT, months_ago(tx, 3)), 200),
    "one run": (lambda tx: reading.run(tx, TENANT, newest(tx)), FIRST),
    "its task runs": (lambda tx: reading.run_task_runs(tx, TENANT, newest(tx), Page()), FIRST),
    "its events": (lambda tx: reading.run_events(tx, TENANT, newest(tx), Page()), FIRST),
    "why one waits": (
        lambda tx: why.why(tx, TENANT, ids.task_run_id(newest(tx), 1), lambda _: dict.fromkeys(LEVELS)),
        FIRST,
    ),
    "a task run": (lambda tx: reading.task_run(tx, TENANT, ids.task_run_id(newest(tx), 1)), FIRST),
    "queue items": (lambda tx: reading.queue_items(tx, TENANT, Page()), 0),
    "a run against its events": (lambda tx: verify.run(tx, newest(tx)), FIRST),
}


@pytest.mark.parametrize("name", READS)
def test_a_page_fetches_little_more_than_it_shows_of_however_many_months(stand: Stand, name: str) -> None:
    read, most = READS[name]

    def look(stand: Stand) -> None:
        with stand.driver.database.reading() as tx:
            read(tx)

    found = stand.reads(look, times=2)
    assert {name: seen.whole for name, seen in found.items() if seen.whole} == {}
    assert sum(seen.rows for name, seen in found.items() if stand.is_past(name)) <= 2 * most
    assert max(seen.rows for seen in found.values()) <= 2 * FEW


def test_history_lies_in_the_partitions_of_its_months(stand: Stand) -> None:
    """What the tests above rely upon."""
    found = stand.reads(lambda _: None)
    months = {name.removeprefix("runs_") for name in found if name.startswith("runs_")}
    assert len(months) >= history.MONTHS - 1
    for table in ("runs", "task_runs", "events"):
        assert {f"{table}_{month}" for month in months} <= found.keys()
