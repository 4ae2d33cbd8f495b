"""Standalone tasks are accepted all or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.concurrency import call_concurrently
from support.factories import register, remove_task
from support.run_driver import PERMANENT, RunDriver, header
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PipeWeaveError
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import Queued, QueueRequest
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import INLINE_BYTES, MAX_BATCH


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def enqueue(driver: RunDriver, *requests: QueueRequest) -> list[Queued]:
    with driver.database.transaction() as tx:
        return standalone_tasks.enqueue(tx, VALUES, driver.tenant, requests)


def count_runs(driver: RunDriver) -> int:
    return int(driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :id", id=driver.tenant)[0][0])


def test_a_queued_task_is_a_run_of_one_step_without_a_pipeline(driver: RunDriver) -> None:
    (queued,) = enqueue(driver, QueueRequest("noop", {"n": 1}, priority=5, metadata={"by": "test"}))
    run_id = ids.run_id_of(queued.task_run_id)
    run = driver.run(run_id)
    assert (run.pipeline_id, run.pipeline_version, run.input) == (None, None, {"n": 1})
    assert run.metadata == {"by": "test"}
    (row,) = driver.task_runs(run_id)
    assert (row.id, row.status, row.task_id, row.priority) == (queued.task_run_id, "queued", "noop", 5)
    assert driver.released(run_id) == [1]


@pytest.mark.parametrize(("failure", "status"), [(None, "completed"), (PERMANENT, "failed")])
def test_a_queued_task_ends_its_run(driver: RunDriver, failure: object, status: str) -> None:
    (queued,) = enqueue(driver, QueueRequest("noop"))
    run_id = ids.run_id_of(queued.task_run_id)
    driver.finish(run_id, "noop", failure=failure)
    assert driver.run(run_id).status == status


def test_a_batch_keeps_its_order_and_sends_each(driver: RunDriver) -> None:
    queued = enqueue(driver, *(QueueRequest("noop" if n % 2 else "limited", n) for n in range(10)))
    assert [each.task_id for each in queued] == ["limited", "noop"] * 5
    runs = [driver.run(ids.run_id_of(each.task_run_id)) for each in queued]
    assert [run.input for run in runs] == list(range(10))
    statuses = [driver.task_runs(run.id)[0].status for run in runs]
    assert statuses[1::2] == ["queued"] * 5
    assert sorted(statuses[::2]) == ["queued"] * 2 + ["ready"] * 3


def test_an_empty_batch_queues_nothing(driver: RunDriver) -> None:
    assert enqueue(driver) == []
    assert count_runs(driver) == 0


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (QueueRequest("nothing"), NotFound),
        (QueueRequest("noop", priority=2_000_000), InvalidInput),
        (QueueRequest("noop", {"nul": "\0"}), InvalidInput),
        (QueueRequest("noop", object()), InvalidInput),
    ],
)
def test_one_wrong_task_refuses_the_whole_batch(
    driver: RunDriver, request_: QueueRequest, error: type[PipeWeaveError]
) -> None:
    driver.sent.clear()
    with pytest.raises(error):
        enqueue(driver, QueueRequest("noop"), request_, QueueRequest("noop"))
    assert count_runs(driver) == 0
    assert driver.sent == []


def test_a_batch_beyond_the_cap_is_refused(driver: RunDriver) -> None:
    with pytest.raises(LimitExceeded):
        enqueue(driver, *[QueueRequest("noop")] * (MAX_BATCH + 1))
    assert count_runs(driver) == 0


def test_a_task_that_is_gone_is_not_queued(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        remove_task(tx, driver.tenant, "noop")
    with pytest.raises(Conflict, match="is not registered"):
        enqueue(driver, QueueRequest("noop"))
    assert count_runs(driver) == 0


def test_a_task_of_another_tenant_is_not_there(driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "mine", id="other-service")
    with pytest.raises(NotFound):
        enqueue(RunDriver(driver.database), QueueRequest("mine"))


def test_a_large_input_goes_to_storage(driver: RunDriver) -> None:
    (queued,) = enqueue(driver, QueueRequest("noop", "x" * INLINE_BYTES))
    assert queued.input_path is not None
    assert driver.run(ids.run_id_of(queued.task_run_id)).input_path == queued.input_path


# --- idempotency keys -------------------------------------------------------------------------------------


def keyed(key: str = "k", task: str = "noop", input: object = None) -> QueueRequest:
    return QueueRequest(task, input, idempotency_key=key)


def key_row(driver: RunDriver, key: str = "k") -> Any:
    statement = "SELECT * FROM idempotency_claims WHERE tenant_id = :t AND key = :key"
    return driver.rows(statement, t=driver.tenant, key=key)[0]


def work_off(driver: RunDriver, queued: Queued, failure: Any = None) -> None:
    """Execute a task run under its key."""
    with driver.database.transaction() as tx:
        (started,) = claiming.start(tx, ids.run_id_of(queued.task_run_id), [1], 1, worker="w1")
        assert started.idempotency_key == "k"
        assert idempotency.claim(tx, driver.tenant, started, "k") is None
    with driver.database.transaction() as tx:
        outcome: Any = (started, failure)
        if failure is None:
            outcome = Completion(started, VALUES.keep("done"), key="k")
        Turn(header(tx, started.run_id), [outcome], started.queue, max_retry_delay_ms=None).store(tx)


def test_a_second_request_with_the_same_key_is_answered_with_the_first_task_run(driver: RunDriver) -> None:
    (first,) = enqueue(driver, keyed(input=1))
    (second,) = enqueue(driver, keyed(input=2))
    assert second == replace(first, created=False)
    assert count_runs(driver) == 1
    assert driver.task_runs(ids.run_id_of(first.task_run_id))[0].idempotency_key == "k"
    work_off(driver, first)
    (third,) = enqueue(driver, keyed())
    assert third == replace(first, status="completed", created=False)


def test_another_key_task_or_tenant_is_another_request(driver: RunDriver) -> None:
    other = RunDriver(driver.database)
    accepted = enqueue(driver, keyed("a"), keyed("b"), keyed("a", "limited"), QueueRequest("noop"))
    accepted += enqueue(other, keyed("a"))
    assert all(each.created for each in accepted)


def test_equal_keys_in_one_batch_are_one_task_run(driver: RunDriver) -> None:
    enqueue(driver, keyed("known"))
    accepted = enqueue(
        driver, keyed("b"), keyed("known"), keyed("a"), keyed("b"), QueueRequest("noop"), keyed("a")
    )
    assert [each.created for each in accepted] == [True, False, True, False, True, False]
    found = [each.task_run_id for each in accepted]
    assert (found[0], found[2]) == (found[3], found[5])
    assert count_runs(driver) == 4


@pytest.mark.parametrize("key", ["", "x" * 501, "two\nlines"])
def test_a_key_that_is_none_is_refused(driver: RunDriver, key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        enqueue(driver, keyed("fine"), keyed(key))
    assert refused.value.errors[0].field == "idempotencyKey"
    assert count_runs(driver) == 0


def test_after_a_failure_or_a_cancel_the_same_key_is_executed_again(driver: RunDriver) -> None:
    (first,) = enqueue(driver, keyed())
    work_off(driver, first, failure=PERMANENT)
    (second,) = enqueue(driver, keyed())
    assert second.created
    driver.database.run(lambda tx: triggering.cancel_task(tx, driver.tenant, second.task_run_id))
    (third,) = enqueue(driver, keyed())
    assert third.created
    assert key_row(driver).task_run_id == third.task_run_id


def test_a_result_whose_history_is_gone_is_taken_by_a_new_task_run(driver: RunDriver) -> None:
    (first,) = enqueue(driver, keyed())
    work_off(driver, first)
    run_id = ids.run_id_of(first.task_run_id)
    for table, column in (("task_runs", "run_id"), ("events", "run_id"), ("runs", "id")):
        driver.rows(f"DELETE FROM {table} WHERE {column} = :id RETURNING 1", id=run_id)
    (second,) = enqueue(driver, keyed())
    assert second.created
    with driver.database.transaction() as tx:
        (started,) = claiming.start(tx, ids.run_id_of(second.task_run_id), [1], 1, worker="w1")
        assert isinstance(idempotency.claim(tx, driver.tenant, started, "k"), Completion)


def test_the_same_key_at_once_is_one_task_run(driver: RunDriver) -> None:
    found = call_concurrently(
        *[
            lambda: driver.database.run(
                lambda tx: standalone_tasks.enqueue(tx, VALUES, driver.tenant, [keyed()])
            )
        ]
        * 5
    )
    accepted = [each.result[0] for each in found]
    assert len({each.task_run_id for each in accepted}) == 1
    assert [each.created for each in accepted].count(True) == 1
    assert count_runs(driver) == 1


def test_batches_with_the_same_keys_in_another_order_do_not_block_each_other(driver: RunDriver) -> None:
    batch = [keyed(f"k{n}") for n in range(30)]

    def send(requests: list[QueueRequest]) -> list[Queued]:
        # In one transaction: a deadlock would be an error here.
        with driver.database.transaction() as tx:
            return standalone_tasks.enqueue(tx, VALUES, driver.tenant, requests)

    one, other = call_concurrently(lambda: send(batch), lambda: send(batch[::-1]))
    assert [each.task_run_id for each in one.result] == [each.task_run_id for each in other.result[::-1]]
    assert count_runs(driver) == 30


def test_a_batch_that_is_refused_leaves_no_key_behind(driver: RunDriver) -> None:
    with pytest.raises(InvalidInput):
        enqueue(driver, keyed(), QueueRequest("noop", priority=2_000_000))
    assert enqueue(driver, keyed())[0].created
