"""A process that dies between any two statements of a rerun leaves nothing, or the whole rerun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from support.failed_runs import called, differences, failed_run
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver
from support.sent_statements import sent_statements

from pipeweave import ids
from pipeweave.orchestrator.messaging.batching import RunMessage
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.runs.rerunning import CreatedRerun, Rerun
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec.rules import CONTINUE

# A step that failed behind a map, a choice that left a step out, and a wide join that counts.
WIDE = [f"w{number}" for number in range(9)]
NEEDS = {
    "a": [],
    "m": ["a"],
    "left-out": ["a"],
    **{each: ["m"] for each in WIDE},
    "join": WIDE,
    "end": ["join", "left-out"],
}
BEGIN = "w3"
AGAIN = {"w3": 1, "join": 1, "end": 1}


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    """Die instead of sending this statement, counted from 0; the commit counts as one, too, and the death
    after it comes before its messages are sent.
    """
    sent = 0
    execute, commit = Transaction.execute, Transaction.commit

    def next_one() -> None:
        nonlocal sent
        if sent == at:
            raise Killed
        sent += 1

    def counted_execute(self, *arguments, **options):  # type: ignore[no-untyped-def]
        next_one()
        return execute(self, *arguments, **options)

    def counted_commit(self: Transaction) -> None:
        next_one()
        commit(self)
        next_one()

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "execute", counted_execute)
        patch.setattr(Transaction, "commit", counted_commit)
        with pytest.raises(Killed):
            yield


@pytest.fixture
def worker(database: Database) -> InlineWorker:
    return InlineWorker(RunDriver(database))


def rerun(driver: RunDriver, run_id: UUID) -> CreatedRerun:
    request = Rerun(run_id, BEGIN, run_token="once")
    return driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    )


def count(driver: RunDriver) -> dict[str, int]:
    """The rows of the tenant that a rerun writes."""
    own = "SELECT count(*) AS n FROM {} AS e JOIN runs AS r ON r.id = e.run_id WHERE r.tenant_id = :t"
    statements = {each: own.format(each) for each in ("task_runs", "events", "run_tokens")}
    statements["runs"] = "SELECT count(*) AS n FROM runs WHERE tenant_id = :t"
    return {table: driver.rows(each, t=driver.tenant)[0].n for table, each in statements.items()}


def send_again(worker: InlineWorker, run_id: UUID) -> None:
    """Do as the tick: send messages for what is queued."""
    for row in worker.driver.task_runs(run_id):
        if row.status == "queued":
            ordinal = ids.ordinal_of(row.id)
            worker.waiting.append(RunMessage(run_id, (ordinal,), row.attempt, row.queue, row.priority))


def test_a_rerun_that_dies_anywhere_is_not_there_or_whole(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = worker.driver
    worker.chooses = {"a": ["m"]}
    first, other = (
        failed_run(
            worker, NEEDS, BEGIN, maps={"m": "${input}"}, input=[1, 2, 3], failureMode=CONTINUE, id=each
        )
        for each in ("first", "other")
    )
    with sent_statements() as sent:
        rerun(driver, other)
    worker.waiting.clear()
    before = count(driver)
    for at in range(len(sent) + 1):
        with dying(monkeypatch, at):
            rerun(driver, first)
        assert count(driver) == before, f"something is there after a death before statement {at}"
    with dying(monkeypatch, len(sent) + 1):
        rerun(driver, first)
    after = count(driver)
    assert after["runs"] == before["runs"] + 1
    assert worker.waiting == []

    worker.calls.clear()
    worker.fails.clear()
    found = rerun(driver, first)
    assert (found.created, count(driver)) == (False, after)
    assert differences(driver, found.id) == []
    send_again(worker, found.id)
    worker.consume_all()
    assert (driver.run(found.id).status, called(worker)) == ("completed", AGAIN)
    assert differences(driver, found.id) == []
