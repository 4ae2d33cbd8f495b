"""Standalone tasks are accepted all or none."""

from __future__ import annotations

import pytest
from driving import BOOM, Driver
from registered import register

from pipeweave import ids
from pipeweave.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PipeWeaveError
from pipeweave.limits import INLINE_BYTES, MAX_BATCH
from pipeweave.orchestrator import queue
from pipeweave.orchestrator.database import Database
from pipeweave.orchestrator.queue import Queued, QueueRequest


@pytest.fixture
def driver(database: Database) -> Driver:
    return Driver(database)


def enqueue(driver: Driver, *requests: QueueRequest) -> list[Queued]:
    with driver.database.transaction() as tx:
        return queue.enqueue(tx, driver.tenant, requests)


def count_runs(driver: Driver) -> int:
    return int(driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :id", id=driver.tenant)[0][0])


def test_a_queued_task_is_a_run_of_one_step_without_a_pipeline(driver: Driver) -> None:
    (queued,) = enqueue(driver, QueueRequest("noop", {"n": 1}, priority=5, metadata={"by": "test"}))
    run_id = ids.run_id_of(queued.task_run_id)
    run = driver.run(run_id)
    assert (run.pipeline_id, run.pipeline_version, run.input) == (None, None, {"n": 1})
    assert run.metadata == {"by": "test"}
    (row,) = driver.task_runs(run_id)
    assert (row.id, row.status, row.task_id, row.priority) == (queued.task_run_id, "queued", "noop", 5)
    assert driver.released(run_id) == [1]


@pytest.mark.parametrize(("failure", "status"), [(None, "completed"), (BOOM, "failed")])
def test_a_queued_task_ends_its_run(driver: Driver, failure: object, status: str) -> None:
    (queued,) = enqueue(driver, QueueRequest("noop"))
    run_id = ids.run_id_of(queued.task_run_id)
    driver.finish(run_id, "noop", failure=failure)
    assert driver.run(run_id).status == status


def test_a_batch_keeps_its_order_and_sends_each(driver: Driver) -> None:
    queued = enqueue(driver, *(QueueRequest("noop" if n % 2 else "limited", n) for n in range(10)))
    assert [each.task_id for each in queued] == ["limited", "noop"] * 5
    runs = [driver.run(ids.run_id_of(each.task_run_id)) for each in queued]
    assert [run.input for run in runs] == list(range(10))
    statuses = [driver.task_runs(run.id)[0].status for run in runs]
    assert statuses[1::2] == ["queued"] * 5
    assert sorted(statuses[::2]) == ["queued"] * 2 + ["ready"] * 3


def test_an_empty_batch_queues_nothing(driver: Driver) -> None:
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
    driver: Driver, request_: QueueRequest, error: type[PipeWeaveError]
) -> None:
    driver.sent.clear()
    with pytest.raises(error):
        enqueue(driver, QueueRequest("noop"), request_, QueueRequest("noop"))
    assert count_runs(driver) == 0
    assert driver.sent == []


def test_a_batch_beyond_the_cap_is_refused(driver: Driver) -> None:
    with pytest.raises(LimitExceeded):
        enqueue(driver, *[QueueRequest("noop")] * (MAX_BATCH + 1))
    assert count_runs(driver) == 0


def test_a_task_that_is_gone_is_not_queued(driver: Driver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "another", version="2.0.0")
    with pytest.raises(Conflict, match="is not registered"):
        enqueue(driver, QueueRequest("noop"))
    assert count_runs(driver) == 0


def test_a_task_of_another_tenant_is_not_there(driver: Driver) -> None:
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "mine", id="other-service")
    with pytest.raises(NotFound):
        enqueue(Driver(driver.database), QueueRequest("mine"))


def test_a_large_input_goes_to_storage(driver: Driver) -> None:
    (queued,) = enqueue(driver, QueueRequest("noop", "x" * INLINE_BYTES))
    assert queued.input_path is not None
    assert driver.run(ids.run_id_of(queued.task_run_id)).input_path == queued.input_path
