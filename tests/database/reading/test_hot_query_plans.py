"""What runs cost must not grow with what is over: verbs, ticks and pages leave finished history alone.

PostgreSQL's own counters say which partitions were looked at and how many rows were fetched there, however
the statements are written. The history: finished runs over the partitions of several months.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.history_database import TENANT, TIMES, HistoryDatabase, Read, database_with_history
from support.run_driver import PERMANENT, claim, finish_task_run, header
from support.stored_values import VALUES

from benchmarks import history
from pipeweave import ids
from pipeweave.orchestrator import reading, timeline
from pipeweave.orchestrator.diagnosis import repeated_ticks, stalled, verify, why
from pipeweave.orchestrator.domain.task_run import Completion, KeyWait, TaskRun
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.queueing import limits, maintenance_mode, pauses, priorities
from pipeweave.orchestrator.reading import Window, maintenance
from pipeweave.orchestrator.recovery import lost_messages, tick
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.runs import admission, standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import PageRequest, cursor_of
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

# Rows of a past month that planning one call's statements may peek at.
PEEKS = 2
# Rows of this month that one verb may fetch, its own and those of the few runs of the same test included.
FEW = 100


@pytest.fixture(scope="module")
def months(
    postgres_server: Postgres, database_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HistoryDatabase]:
    """Months of history, for all tests of this module."""
    with database_with_history(
        postgres_server, database_template, tmp_path_factory.mktemp("history")
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_open(months: HistoryDatabase) -> None:
    """Runs that an earlier test left open: a tick must look at them."""
    opened = months.driver.rows("SELECT id, pipeline_id FROM runs WHERE status = 'running'")
    for row in opened:
        with months.driver.database.transaction() as tx:
            if row.pipeline_id is None:
                triggering.cancel_task(tx, TENANT, ids.task_run_id(row.id, 1))
            else:
                triggering.cancel(tx, TENANT, row.id)


# --- verbs that know their run ----------------------------------------------------------------------------


def trigger(months: HistoryDatabase) -> UUID:
    return months.driver.trigger("diamond")


def trigger_many(months: HistoryDatabase) -> None:
    with months.driver.database.transaction() as tx:
        triggering.trigger_many(
            tx, VALUES, TENANT, "diamond", [triggering.StartRequest("diamond", n) for n in range(5)]
        )


def trigger_again(months: HistoryDatabase) -> None:
    months.driver.trigger("diamond", run_token="once")


def enqueue(months: HistoryDatabase) -> None:
    with months.driver.database.transaction() as tx:
        standalone_tasks.enqueue(tx, VALUES, TENANT, [QueueRequest("noop", 1)])


def complete(months: HistoryDatabase) -> None:
    """Claims, completions and releases, to the end of a run."""
    months.driver.finish(trigger(months), "a", "b", "c", "d")


def complete_map(months: HistoryDatabase) -> None:
    """A list of three, its items and the end."""
    run_id = months.driver.trigger("mapped")
    months.driver.finish(run_id, "a", output=[1, 2, 3])
    for row in months.driver.task_runs(run_id)[2:]:
        with months.driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ids.ordinal_of(row.id))


def fail(months: HistoryDatabase) -> None:
    months.driver.finish(trigger(months), "a", failure=PERMANENT)


def cancel(months: HistoryDatabase) -> None:
    run_id = trigger(months)
    with months.driver.database.transaction() as tx:
        triggering.cancel(tx, TENANT, run_id)


def check_join(months: HistoryDatabase) -> None:
    run_id = trigger(months)
    months.driver.finish(run_id, "a")
    months.driver.check(run_id, 4)


def started(months: HistoryDatabase) -> TaskRun:
    """The first task run of a run of its own, claimed."""
    run_id = trigger(months)
    with months.driver.database.transaction() as tx:
        found = claim(tx, run_id, 1)
    assert found is not None
    return found


def take_keys(months: HistoryDatabase) -> None:
    """One takes a key, another finds it taken, a third one finds its result."""
    key = str(ids.new_id())
    one, other, third = (started(months) for _ in range(3))
    with months.driver.database.transaction() as tx:
        assert idempotency.claim(tx, TENANT, one, key) is None
        assert isinstance(idempotency.claim(tx, TENANT, other, key), KeyWait)
        tx.execute(
            """UPDATE idempotency_claims SET finished_at = now(), output_hash = '', output_size = 0,
                expires_at = now() + interval '1 h' WHERE key = :key""",
            {"key": key},
        )
        assert isinstance(idempotency.claim(tx, TENANT, third, key), Completion)


def enqueue_with_a_key(months: HistoryDatabase) -> None:
    """A task is queued, and once more."""
    request = QueueRequest("noop", 1, idempotency_key=str(ids.new_id()))
    for _ in range(2):
        with months.driver.database.transaction() as tx:
            standalone_tasks.enqueue(tx, VALUES, TENANT, [request])


KEYED = [
    *(trigger, trigger_many, trigger_again, enqueue, complete, complete_map, fail, cancel, check_join),
    *(take_keys, enqueue_with_a_key),
]


@pytest.mark.parametrize("verb", KEYED)
def test_a_verb_looks_only_into_the_partition_of_its_run(
    months: HistoryDatabase, verb: Callable[[HistoryDatabase], object]
) -> None:
    found = months.reads(verb)
    assert {name: read for name, read in found.items() if months.is_past(name)} == {
        name: Read(0, 0, 0) for name in found if months.is_past(name)
    }
    assert {name: read.whole for name, read in found.items() if read.whole} == {}
    assert max(read.rows for read in found.values()) <= TIMES * FEW


# --- what goes over all that is open ----------------------------------------------------------------------


def fill_limits(months: HistoryDatabase) -> None:
    runs_ = [months.driver.trigger("limited") for _ in range(3)]
    with months.driver.database.transaction() as tx:
        limits.fill(tx, TENANT, ["limited"])
    for run_id in runs_:
        months.driver.finish(run_id, "a")


def tick_in_vain(months: HistoryDatabase) -> None:
    tick.run_once(months.deployment)


def tick_that_heals(months: HistoryDatabase) -> None:
    """Every message is lost, and late."""
    trigger(months)
    months.clock.ahead += 2 * lost_messages.LATE
    tick.run_once(months.deployment)


def pause_and_resume(months: HistoryDatabase) -> None:
    run_ids = [months.driver.trigger("limited"), trigger(months)]
    database = months.driver.database
    database.run(lambda tx: pauses.pause(tx, TENANT))
    run_ids.append(trigger(months))
    tick.run_once(months.deployment)
    database.run(lambda tx: pauses.resume(tx, TENANT))
    for run_id in run_ids:
        database.run(lambda tx, run_id=run_id: triggering.cancel(tx, TENANT, run_id))  # type: ignore[misc]


def wait_for_their_turn(months: HistoryDatabase) -> None:
    """Three runs where one may be active: each end lets the next one start."""
    database = months.driver.database
    database.run(lambda tx: admission.set_limit(tx, TENANT, 1))
    run_ids = [trigger(months) for _ in range(3)]
    tick.run_once(months.deployment)
    for run_id in run_ids:
        database.run(lambda tx, run_id=run_id: triggering.cancel(tx, TENANT, run_id))  # type: ignore[misc]
    database.run(lambda tx: admission.set_limit(tx, TENANT, None))


def give_way(months: HistoryDatabase) -> None:
    low, best = trigger(months), months.driver.trigger("diamond", priority=1)
    queue_name = months.driver.task_runs(low)[0].queue
    with months.driver.database.transaction() as tx:
        start = WorkerStart("python", "w@host", "host", 1, 1, queues=(queue_name,))
        worker = worker_processes.register(tx, TENANT, start)
        heard = worker_processes.beat(tx, worker, also=priorities.IS_MIXED)
        assert heard is not None
        assert heard.also
        worker_processes.stop(tx, worker)
        assert priorities.is_outranked(tx, queue_name, low, [1])
        found = priorities.better(tx, queue_name, low, [1], 1, 10)
        assert found is not None
        assert found.run_id == best
    for run_id in (low, best):
        with months.driver.database.transaction() as tx:
            triggering.cancel(tx, TENANT, run_id)


def say_the_mode(months: HistoryDatabase) -> None:
    with months.driver.database.reading() as tx:
        maintenance.state(tx)


def drain(months: HistoryDatabase) -> None:
    """Maintenance is asked for, a run blocks it, ends, and brings it about."""
    run_id = trigger(months)
    database = months.driver.database
    database.run(maintenance_mode.request)
    database.run(maintenance_mode.enter)
    with database.reading() as tx:
        assert maintenance.detailed_state(tx)["blockingTotal"] == 1
    with database.transaction() as tx:
        triggering.cancel(tx, TENANT, run_id)
    database.run(maintenance_mode.leave)


def look_for_what_stands_still(months: HistoryDatabase) -> None:
    """A message is lost, a join is due and closed."""
    trigger(months)
    due = trigger(months)
    with months.driver.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET status = 'skipped', finished_at = now() WHERE run_id = :id", {"id": due}
        )
    months.clock.ahead += 2 * stalled.LATE
    assert {"message_lost", "run_without_live_row"} <= {
        each.kind.value for each in repeated_ticks.find_stalled(months.deployment)
    }


def wait_for_a_key(months: HistoryDatabase) -> None:
    """One waits for a key, and is woken by the end of the one that has it."""
    key = str(ids.new_id())
    holder, waiter = (started(months) for _ in range(2))
    with months.driver.database.transaction() as tx:
        assert idempotency.claim(tx, TENANT, holder, key) is None
        found = idempotency.claim(tx, TENANT, waiter, key)
    assert isinstance(found, KeyWait)
    outcomes = [found, Completion(holder, months.driver.values.keep(1), key=key)]
    for each in outcomes:
        with months.driver.database.transaction() as tx:
            Turn(
                header(tx, each.task_run.run_id), [each], each.task_run.queue, max_retry_delay_ms=None
            ).store(tx)
    assert months.driver.task_runs(waiter.run_id)[0].status == "queued"


LOOKS = [
    *(pause_and_resume, wait_for_their_turn, give_way),
    *(fill_limits, tick_in_vain, tick_that_heals, say_the_mode, drain, look_for_what_stands_still),
    wait_for_a_key,
]


@pytest.mark.parametrize("work", LOOKS)
def test_queries_for_open_rows_fetch_no_final_rows(
    months: HistoryDatabase, work: Callable[[HistoryDatabase], object]
) -> None:
    found = months.reads(work)
    past = {name: read for name, read in found.items() if months.is_past(name)}
    assert {name: read.whole for name, read in past.items() if read.whole} == {}
    # Planning, which a session does for the first few times, peeks at the last row of an index.
    assert max(read.rows for read in past.values()) <= TIMES * PEEKS
    assert {name: read.whole for name, read in found.items() if read.whole} == {}
    assert max(read.rows for read in found.values()) <= TIMES * FEW


# --- lists and pages --------------------------------------------------------------------------------------


def newest(tx: Transaction) -> UUID:
    """The newest run with the four steps of its pipeline."""
    diamonds = RunFilter(pipeline_id=("diamond",))
    return ids.read(ids.RUN, reading.run_list(tx, TENANT, PageRequest(1), diamonds)["items"][0]["id"])


def months_ago(tx: Transaction, months: int) -> PageRequest:
    """A page of the list that begins deep in the history."""
    then = tx.now - timedelta(days=30 * months)
    return PageRequest(50, cursor_of("runs", ids.first_id_at(int(then.timestamp() * 1000))))


# A list in the order of ids begins with a look at the first row of every partition. On the first of a month
# even the newest runs are those of the last one.
FIRST = history.MONTHS
LISTED = 50 + 1 + FIRST
# Runs of a grid, each with four steps, and of each pipeline of a list.
GRID = 10

# What is read -> the read, and the rows it may fetch of the partitions of past months.
READS: dict[str, tuple[Callable[[Transaction], Any], int]] = {
    "runs": (lambda tx: reading.run_list(tx, TENANT, PageRequest()), LISTED),
    "runs of a pipeline": (
        lambda tx: reading.run_list(tx, TENANT, PageRequest(), RunFilter(pipeline_id=("diamond",))),
        LISTED,
    ),
    "runs that run": (
        lambda tx: reading.run_list(tx, TENANT, PageRequest(), RunFilter(status=("running",))),
        LISTED,
    ),
    # One of a hundred failed: fifty of them reach months back.
    "runs that failed": (
        lambda tx: reading.run_list(tx, TENANT, PageRequest(), RunFilter(status=("failed",))),
        200,
    ),
    "a page deep in the runs": (lambda tx: reading.run_list(tx, TENANT, months_ago(tx, 3)), 200),
    "one run": (lambda tx: reading.run(tx, TENANT, newest(tx)), FIRST),
    "its task runs": (lambda tx: reading.run_task_runs(tx, TENANT, newest(tx), PageRequest()), FIRST),
    "its events": (lambda tx: reading.run_events(tx, TENANT, newest(tx), PageRequest()), FIRST),
    "its steps": (lambda tx: reading.step_states(tx, TENANT, newest(tx)), FIRST),
    "its attempts": (lambda tx: reading.run_attempts(tx, TENANT, newest(tx), PageRequest()), FIRST),
    "its log": (lambda tx: reading.chosen_logs(tx, TENANT, newest(tx), VALUES.backends, None), FIRST),
    "its ledger": (lambda tx: timeline.ledger(tx, TENANT, newest(tx)), FIRST),
    "its timeline": (lambda tx: timeline.timeline(tx, TENANT, newest(tx), PageRequest(), bins=60), FIRST),
    "what differs from itself": (
        lambda tx: reading.compare_runs(tx, TENANT, newest(tx), newest(tx)),
        2 * FIRST,
    ),
    "a grid": (lambda tx: reading.grid(tx, TENANT, "diamond", Window(runs=GRID)), 5 * (GRID + 1) + FIRST),
    "pipelines with their newest runs": (
        lambda tx: reading.pipeline_list(tx, TENANT, PageRequest(), recent=GRID),
        3 * (GRID + FIRST),
    ),
    "why one waits": (
        lambda tx: why.why(tx, TENANT, ids.task_run_id(newest(tx), 1), lambda _: dict.fromkeys(LEVELS)),
        FIRST,
    ),
    "a task run": (lambda tx: reading.task_run(tx, TENANT, ids.task_run_id(newest(tx), 1)), FIRST),
    "queue items": (lambda tx: reading.queue_items(tx, TENANT, PageRequest()), 0),
    "a run against its events": (lambda tx: verify.run(tx, newest(tx)), FIRST),
}


@pytest.mark.parametrize("name", READS)
def test_a_page_fetches_little_more_than_it_shows_of_however_many_months(
    months: HistoryDatabase, name: str
) -> None:
    read, most = READS[name]

    def look(months: HistoryDatabase) -> None:
        with months.driver.database.reading() as tx:
            read(tx)

    found = months.reads(look, times=2)
    assert {name: seen.whole for name, seen in found.items() if seen.whole} == {}
    assert sum(seen.rows for name, seen in found.items() if months.is_past(name)) <= 2 * most
    assert max(seen.rows for seen in found.values()) <= 2 * FEW


def test_history_lies_in_the_partitions_of_its_months(months: HistoryDatabase) -> None:
    """What the tests above rely upon."""
    found = months.reads(lambda _: None)
    months = {name.removeprefix("runs_") for name in found if name.startswith("runs_")}
    assert len(months) >= history.MONTHS - 1
    for table in ("runs", "task_runs", "events"):
        assert {f"{table}_{month}" for month in months} <= found.keys()
