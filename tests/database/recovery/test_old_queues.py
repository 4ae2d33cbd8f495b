"""What the own queues of workers that are gone for long leave in Redis is deleted."""

from __future__ import annotations

from typing import Any

from support.factories import a_worker, own_queue_of
from support.redis_inspection import redis, run
from support.run_driver import RunDriver

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.recovery import old_queues
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.settings import Settings


def keys_of(publisher: Publisher, queue: str) -> list[bytes]:
    name = queue.removeprefix("pipeweave.").encode()
    return [key for key in redis(publisher).keys("*") if name in key]


def leave_behind(publisher: Publisher, queue: str) -> None:
    """What a worker and its messages leave."""
    app = make_celery(Settings(broker_url=publisher.app.conf.broker_url), queues=(queue,), is_worker=True)
    with app.connection_for_read() as connection:
        app.amqp.queues[queue.removeprefix("pipeweave.")].bind(connection.default_channel).declare()
    app.close()
    publisher.publish([Released(run(), 1, 1, "t", queue, 100)])


def stop(driver: RunDriver, worker: str, hours: int) -> None:
    with driver.database.transaction() as tx:
        worker_processes.stop(tx, worker)
        tx.execute(
            "UPDATE workers SET stopped_at = now() - :hours * interval '1 hour' WHERE id = :id",
            {"hours": hours, "id": worker},
        )


def forget(driver: RunDriver, publisher: Any) -> int:
    with driver.database.transaction() as tx:
        return old_queues.forget(tx, publisher)


def test_the_queue_of_workers_that_stopped_a_day_ago_is_forgotten(
    driver: RunDriver, publisher: Publisher
) -> None:
    queue = own_queue_of(driver.tenant, "noop")
    leave_behind(publisher, queue)
    assert len(keys_of(publisher, queue)) > 1, "the messages, and what binds the queue"
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver.tenant, "noop")
    stop(driver, worker, hours=2)
    assert forget(driver, publisher) == 0, "its workers may come back"
    stop(driver, worker, hours=30)
    assert forget(driver, publisher) == 1
    assert keys_of(publisher, queue) == []


def test_a_queue_that_a_live_worker_consumes_is_kept(driver: RunDriver, publisher: Publisher) -> None:
    queue = own_queue_of(driver.tenant, "noop")
    leave_behind(publisher, queue)
    with driver.database.transaction() as tx:
        gone = a_worker(tx, driver.tenant, "noop", name="gone")
        a_worker(tx, driver.tenant, "noop", name="lives")
    stop(driver, gone, hours=30)
    assert forget(driver, publisher) == 0
    assert keys_of(publisher, queue)


def test_while_the_broker_is_away_nothing_is_forgotten(driver: RunDriver) -> None:
    class Away:
        def forget(self, queue: str) -> None:
            raise Unavailable("the broker is away")

    with driver.database.transaction() as tx:
        gone = a_worker(tx, driver.tenant, "noop")
    stop(driver, gone, hours=30)
    assert forget(driver, Away()) == 0
