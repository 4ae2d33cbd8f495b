"""A pipeline of which no step has a task: no worker is needed, and no message is sent to one."""

from __future__ import annotations

from support.engine_steps import transform
from support.run_driver import RunDriver

from pipeweave.orchestrator.deployment.nobodys_joins import sender_of
from pipeweave.orchestrator.domain.outbox import JoinCheck, Outgoing
from pipeweave.orchestrator.engine.acting import MAX_ACTS
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.store.database import Database


class Noting(Publisher):
    """Keeps what it should send."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    def publish(self, outbox: object) -> None:
        self.sent.extend(outbox)  # type: ignore[call-overload]


def test_whoever_would_send_a_check_that_no_worker_takes_does_it(database: Database) -> None:
    driver, publisher = RunDriver(database), Noting()
    database.sender = sender_of(publisher, database, driver.values)
    count = 2 * MAX_ACTS + 5
    chain = [transform(f"t{n}", n, (f"t{n - 1}",) if n else ()) for n in range(count)]
    wide = [transform(f"w{n}", n, (f"t{count - 1}",)) for n in range(9)]
    driver.store_steps(*chain, *wide, transform("join", 1, tuple(each.id for each in wide)))
    run_id = driver.trigger()
    assert driver.run(run_id).status == "completed"
    assert [each for each in publisher.sent if isinstance(each, JoinCheck)] == []
