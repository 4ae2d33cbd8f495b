"""What each task run in the line waits for first: what `why` says of it alone, for less work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.factories import a_task, a_worker, register
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import why, why_line
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.runs import pausing
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.orchestrator.store.remembering import Remembering


def oldest(queue: str) -> Mapping[int, float | None]:
    return dict.fromkeys(LEVELS, 0.0)


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    made.store({"a": []}, id="limited", tasks={"a": "limited"})
    made.store({"a": []}, id="one")
    yield made


def line(driver: RunDriver, **filters: Any) -> list[Document]:
    with driver.database.reading() as tx:
        return list(why_line.items_with_reasons(tx, driver.tenant, PageRequest(), oldest, **filters)["items"])


def test_each_says_what_why_says_of_it_first(driver: RunDriver) -> None:
    for _ in range(4):
        driver.trigger("limited")
    driver.trigger("one")
    items = line(driver)
    assert len(items) == 5
    with driver.database.reading() as tx:
        for each in items:
            alone = why.why(tx, driver.tenant, ids.read(ids.TASK_RUN, each["id"]), oldest)["reasons"]
            assert each["reason"] == alone[0]
    held = [each["reason"] for each in items if each["status"] == "ready"]
    assert [(each["code"], each["position"]) for each in held] == [
        ("concurrency_limit", 1),
        ("concurrency_limit", 2),
    ]
    assert {each["reason"]["code"] for each in items if each["status"] == "queued"} == {"no_worker"}


def test_a_pause_comes_before_the_limit(driver: RunDriver) -> None:
    for _ in range(3):
        driver.trigger("limited")
    driver.database.run(lambda tx: pauses.pause(tx, driver.tenant, reason="moving house"))
    reasons = [each["reason"] for each in line(driver)]
    assert {(each["code"], each["reason"]) for each in reasons} == {("tenant_paused", "moving house")}


def test_the_line_of_one_queue_has_nothing_of_another(driver: RunDriver) -> None:
    driver.trigger("one")
    [item] = line(driver)
    assert [each["id"] for each in line(driver, queue=item["queue"])] == [item["id"]]
    assert line(driver, queue="pipeweave.elsewhere") == []


def test_a_longer_page_costs_one_statement_more_for_each_item(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    execute = Transaction.execute

    def counting(tx: Transaction, statement: str, *arguments: Any, **options: Any) -> Any:
        sent.append(statement)
        return execute(tx, statement, *arguments, **options)

    def cost(**filters: Any) -> int:
        sent.clear()
        line(driver, **filters)
        return len(sent)

    monkeypatch.setattr(Transaction, "execute", counting)
    for _ in range(4):
        driver.trigger("one")
        driver.trigger("limited")
    few = cost()
    with driver.database.transaction() as tx:
        a_worker(tx, driver.tenant, "noop", "limited")
    served = cost()
    for _ in range(10):
        driver.trigger("one")
        driver.trigger("limited")
    assert {each["reason"]["code"] for each in line(driver)} == {"queued", "concurrency_limit"}
    # Ten that wait for a worker and ten that the limit holds, each with a place of its own.
    assert cost() <= served + 20
    assert 0 < few <= 15


def test_each_of_a_pinned_pipeline_waits_for_its_code(driver: RunDriver) -> None:
    driver.store({"a": []}, id="pinned", code="pinned")
    driver.trigger("pinned")
    driver.trigger("one")
    with driver.database.transaction() as tx:
        new = a_task("noop", "second")
        register(tx, driver.tenant, new)
        a_worker(tx, driver.tenant, new)
    pinned, free = line(driver)
    assert (pinned["reason"]["code"], pinned["reason"]["codeVersion"]) == ("task_not_loaded", 1)
    assert free["reason"]["code"] == "queued"


def test_the_pause_of_a_run_is_told_of_its_task_runs_alone(driver: RunDriver) -> None:
    paused, other = driver.trigger("one"), driver.trigger("one")
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, paused, reason="looks odd")
    found = {each["runId"]: each["reason"] for each in line(driver)}
    assert found[ids.show(ids.RUN, paused)]["reason"] == "looks odd"
    assert found[ids.show(ids.RUN, other)]["code"] == "no_worker"


def test_a_statement_is_sent_once_for_all_that_ask_it(driver: RunDriver) -> None:
    with driver.database.reading() as tx:
        once = Remembering(tx)
        first = once.execute("SELECT random() AS number, :n AS n", {"n": 1}).one()
        assert once.execute("SELECT random() AS number, :n AS n", {"n": 1}).one() == first
        assert once.execute("SELECT random() AS number, :n AS n", {"n": 2}).one() != first
        assert once.execute("SELECT 1 WHERE false").one_or_none() is None
        with pytest.raises(ValueError, match="locks nothing"):
            once.execute("SELECT 1", lock="SELECT 1 FROM runs FOR UPDATE")
