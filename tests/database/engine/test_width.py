"""What a task run costs must not grow with the width of its run, nor with the length of the queue.

PostgreSQL's own counters say how many rows were fetched, however the statements are written and planned.
Majors plan differently: before 17, a list of ids is no reason for PostgreSQL to read by the whole key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from support import failed_runs
from support.plans import flush_counters
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, finish_task_run, header
from support.servers import new_database
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.task_run import Completion, KeyWait
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.runs import pausing, standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import attempts, claiming, completing, run_headers
from pipeweave.orchestrator.store.database import Database
from pipeweave.up.postgres import Postgres

pytestmark = pytest.mark.every_postgres

WIDTH = 3_000
# Runs of one task run each.
NARROW = 2_000
# Often enough that every statement is sent as a prepared one, too.
TIMES = 8
# Rows that one call may fetch.
FEW = 60

MAPPED = {"a": [], "m": ["a"]}
CHAIN = {"a": [], "b": ["a"], "c": ["b"]}


@pytest.fixture(scope="module")
def driver(postgres_server: Postgres, database_template: str) -> Iterator[RunDriver]:
    """Alone in its database, over one connection, so that no other has counters to give."""
    with new_database(postgres_server, "width", database_template) as url:
        database = Database(url, pool_size=1, react=reactions_to)
        yield RunDriver(database)
        database.dispose()


@pytest.fixture(scope="module", params=["never analysed", "analysed before", "analysed after"])
def wide(driver: RunDriver, request: pytest.FixtureRequest) -> UUID:
    """A run with thousands of queued items. What the planner knows of them must not matter: nothing, that
    runs have one task run each, or that one run has thousands.
    """
    if request.param == "analysed before":
        with driver.database.transaction() as tx:
            for _ in range(NARROW // 1_000):
                standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop")] * 1_000)
        with driver.database.transaction() as tx:
            tx.execute("ANALYZE task_runs")
    run_id = driver.begin(MAPPED, maps={"m": "${steps.a}"})
    driver.finish(run_id, "a", output=list(range(WIDTH)))
    if request.param == "analysed after":
        with driver.database.transaction() as tx:
            tx.execute("ANALYZE task_runs")
    return run_id


def fetched(driver: RunDriver, work: Callable[[], object]) -> int:
    """Rows of task runs, and of keys, that a call fetches, on average."""
    before = _count(driver)
    for _ in range(TIMES):
        work()
    return (_count(driver) - before) // TIMES


def _count(driver: RunDriver) -> int:
    flush_counters(driver.database)
    with driver.database.transaction() as tx:
        return int(tx.execute(_FETCHED).scalar_one())


_FETCHED = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables
WHERE relname LIKE 'task_runs%' OR relname = 'idempotency_claims'
"""


def next_items(driver: RunDriver, run_id: UUID, count: int) -> list[int]:
    rows = driver.rows(
        """SELECT id FROM task_runs WHERE run_id = :id AND kind = 'item' AND status = 'queued'
        ORDER BY id LIMIT :count""",
        id=run_id,
        count=count,
    )
    return [ids.ordinal_of(row.id) for row in rows]


def test_the_cost_of_an_item_does_not_grow_with_its_map(driver: RunDriver, wide: UUID) -> None:
    numbers = iter(next_items(driver, wide, 4 * TIMES))

    def one_turn() -> None:
        with driver.database.transaction() as tx:
            run = run_headers.load(tx, wide)
            assert run is not None
            mine = [next(numbers) for _ in range(4)]
            claimed = claiming.start(tx, wide, mine, 1, worker="w1")
            assert len(claimed) == 4
            completing.complete(tx, [Completion(each, VALUES.keep(1)) for each in claimed[:2]])
            attempts.end(tx, run, [(claimed[2], TRANSIENT)], max_retry_delay_ms=None)
            claiming.give_back(tx, claimed[3:])
            claiming.queued(tx, wide, mine, 1)

    assert fetched(driver, one_turn) <= FEW


def test_the_tick_does_not_read_the_items_of_a_map(driver: RunDriver, wide: UUID) -> None:
    def look() -> None:
        with driver.database.statements() as tx:
            assert closed_joins(tx, {wide: header(tx, wide).plan}) == []

    assert fetched(driver, look) <= FEW


_OTHER_KEYS = """
INSERT INTO idempotency_claims (tenant_id, task_id, key, task_run_id, claimed_at)
SELECT :tenant, 'noop', 'other ' || n, :id, now() FROM generate_series(1, :count) AS n ON CONFLICT DO NOTHING
"""


def test_the_cost_of_a_key_grows_neither_with_the_map_nor_with_the_number_of_keys(
    driver: RunDriver, wide: UUID
) -> None:
    with driver.database.transaction() as tx:
        tx.execute(_OTHER_KEYS, {"tenant": driver.tenant, "id": wide, "count": WIDTH})
    numbers = iter(next_items(driver, wide, 2 * TIMES))

    def settle(*outcomes: CallOutcome) -> None:
        with driver.database.transaction() as tx:
            Turn(header(tx, wide), outcomes, "q", max_retry_delay_ms=None).store(tx)

    def one_turn() -> None:
        mine, key = [next(numbers), next(numbers)], str(ids.new_id())
        with driver.database.transaction() as tx:
            first, second = claiming.start(tx, wide, mine, 1, worker="w1")
            assert idempotency.claim(tx, driver.tenant, first, key) is None
            awaits = idempotency.claim(tx, driver.tenant, second, key)
            kept = VALUES.keep(1)
        assert isinstance(awaits, KeyWait)
        settle(awaits)
        settle(Completion(first, kept, key=key))
        with driver.database.transaction() as tx:
            (again,) = claiming.start(tx, wide, mine[1:], 1, worker="w1")
            cached = idempotency.claim(tx, driver.tenant, again, key)
        assert isinstance(cached, Completion)
        settle(cached)

    assert fetched(driver, one_turn) <= FEW


def test_the_cost_of_a_step_does_not_grow_with_the_queue(driver: RunDriver, wide: UUID) -> None:
    driver.store(CHAIN, id="chain")
    assert fetched(driver, lambda: driver.finish(driver.trigger("chain"), "a", "b", "c")) <= FEW


def test_the_cost_of_a_limit_does_not_grow_with_its_waiting_task_runs(driver: RunDriver) -> None:
    driver.store({"m": []}, id="limited", tasks={"m": "limited"}, maps={"m": "${input.list}"})
    run_id = driver.trigger("limited", {"list": list(range(WIDTH))})
    with driver.database.transaction() as tx:
        tx.execute("ANALYZE task_runs")  # as autovacuum does when so many rows are new
    row = driver.rows(
        "SELECT id FROM task_runs WHERE run_id = :id AND status = 'queued' ORDER BY id LIMIT 1", id=run_id
    )[0]
    upcoming = iter(range(ids.ordinal_of(row.id), WIDTH))

    def one() -> None:
        with driver.database.transaction() as tx:
            claimed = claiming.start(tx, run_id, [next(upcoming)], 1, worker="w1")
            assert claimed
            completing.complete(tx, [Completion(claimed[0], VALUES.keep(1))])
            limits.fill(tx, driver.tenant, ["limited"])

    assert fetched(driver, one) <= FEW


def test_the_cost_of_a_limit_does_not_grow_with_paused_runs_that_wait_before_it(driver: RunDriver) -> None:
    driver.store({"m": []}, id="single", tasks={"m": "single"}, maps={"m": "${input.list}"})
    *paused, run_id = [driver.trigger("single", {"list": list(range(NARROW))}) for _ in range(3)]
    for each in paused:
        with driver.database.transaction() as tx:
            pausing.pause(tx, driver.tenant, each)
    with driver.database.transaction() as tx:
        tx.execute("ANALYZE task_runs")
        limits.fill(tx, driver.tenant, ["single"])
    (first,) = next_items(driver, run_id, 1)
    upcoming = iter(range(first, WIDTH))

    def one() -> None:
        with driver.database.transaction() as tx:
            claimed = claiming.start(tx, run_id, [next(upcoming)], 1, worker="w1")
            assert claimed
            completing.complete(tx, [Completion(claimed[0], VALUES.keep(1))])
            limits.fill(tx, driver.tenant, ["single"])

    assert fetched(driver, one) <= FEW
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    assert fetched(driver, lambda: limits.fill_waiting(driver.database)) <= FEW


def test_the_cost_of_a_retry_grows_with_its_run_and_no_faster(driver: RunDriver, wide: UUID) -> None:
    check_cost_of_retry(driver)


def test_the_first_retry_costs_no_more_though_no_run_had_failed_when_rows_were_analysed(
    postgres_server: Postgres, database_template: str
) -> None:
    with new_database(postgres_server, "width-first", database_template) as url:
        database = Database(url, pool_size=1, react=reactions_to)
        driver = RunDriver(database)
        running = driver.begin(MAPPED, maps={"m": "${steps.a}"})
        driver.finish(running, "a", output=list(range(WIDTH)))
        with driver.database.transaction() as tx:
            tx.execute("ANALYZE task_runs")
        check_cost_of_retry(driver)
        database.dispose()


def check_cost_of_retry(driver: RunDriver) -> None:
    run_id = driver.begin(MAPPED, maps={"m": "${steps.a}"}, id="retried")
    driver.finish(run_id, "a", output=list(range(NARROW)))
    (first,) = next_items(driver, run_id, 1)
    with driver.database.transaction() as tx:
        finish_task_run(tx, run_id, first, failure=PERMANENT)
    (letter,) = failed_runs.letters(driver, run_id)
    before = _count(driver)
    failed_runs.retry(driver, letter)
    assert (_count(driver) - before) // NARROW <= TIMES
    assert {row.status for row in driver.task_runs(run_id) if row.kind == "item"} == {"queued"}
