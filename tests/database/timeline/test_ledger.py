"""The ledger of runs as they are stored: it adds up, names what was waited for, and reads few rows."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.plans import parts_of, plans_of
from support.run_driver import PERMANENT, TRANSIENT, Clock, RunDriver, finish_task_run, header, settle
from support.sent_statements import sent_statements

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.documents.run_times import LedgerAnswer
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.runs import admission, pausing
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database, to_json
from pipeweave.orchestrator.timeline import inside, ledger, reading


def ledger_of(driver: RunDriver, run_id: UUID) -> dict[str, Any]:
    with driver.database.reading() as tx:
        found = ledger(tx, driver.tenant, run_id)
    LedgerAnswer.model_validate_json(to_json(found))
    assert round(sum(each["ms"] for each in found["sums"]), 3) == found["totalMs"], "it adds up exactly"
    return found


def minutes(found: dict[str, Any]) -> dict[str, int]:
    """Whole minutes by kind; what the test itself takes is less than one."""
    rounded = {each["kind"]: round(each["ms"] / 60_000) for each in found["sums"]}
    return {kind: number for kind, number in rounded.items() if number}


def pass_time(clock: Clock, minutes: int) -> None:
    clock.ahead += timedelta(minutes=minutes)


def work(
    driver: RunDriver, clock: Clock, run_id: UUID, ordinal: int, took: int, attempt: int = 1, **ending: Any
) -> None:
    """Start a task run, let time pass, and end it."""
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [ordinal], attempt, worker="w1")
    pass_time(clock, took)
    with driver.database.transaction() as tx:
        settle(tx, started, **ending)


def release(driver: RunDriver, run_id: UUID, ordinal: int) -> None:
    """Release an attempt before it is due."""
    with driver.database.transaction() as tx:
        advance = Advance(tx, header(tx, run_id))
        advance.release_due([ids.task_run_id(run_id, ordinal)])
        advance.close()


def test_the_waits_of_a_run_are_named(driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": [], "d": ["b", "c"]})
    pass_time(clock, 2)
    work(driver, clock, run_id, 1, 10)
    work(driver, clock, run_id, 2, 5, failure=TRANSIENT)
    pass_time(clock, 20)
    release(driver, run_id, 2)
    work(driver, clock, run_id, 2, 7, attempt=2)
    work(driver, clock, run_id, 3, 4)
    work(driver, clock, run_id, 4, 1)
    found = ledger_of(driver, run_id)
    # c ended last, and had been queued from the beginning.
    assert [each["stepId"] for each in found["steps"]] == ["c", "d"]
    assert minutes(found) == {"queue": 44, "work": 5}
    assert (found["status"], found["isOpen"], found["pathLength"]) == ("completed", False, 2)


def test_retries_cost_what_the_attempts_that_failed_and_their_delays_took(
    driver: RunDriver, clock: Clock
) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    work(driver, clock, run_id, 1, 5, failure=TRANSIENT)
    pass_time(clock, 20)
    release(driver, run_id, 1)
    pass_time(clock, 3)
    work(driver, clock, run_id, 1, 7, attempt=2)
    found = ledger_of(driver, run_id)
    assert minutes(found) == {"retryDelay": 20, "work": 7, "failedWork": 5, "queue": 3}
    assert found["isOpen"], "b is queued"
    pass_time(clock, 30)
    assert minutes(ledger_of(driver, run_id))["queue"] == 33
    work(driver, clock, run_id, 2, 1, failure=PERMANENT)
    found = ledger_of(driver, run_id)
    assert (found["status"], minutes(found)["failedWork"]) == ("failed", 6)


def test_a_wait_for_a_limit_names_the_task_and_its_limit(driver: RunDriver, clock: Clock) -> None:
    holder, run_id = driver.begin({"a": []}, tasks={"a": "single"}), driver.trigger()
    work(driver, clock, holder, 1, 40)
    assert driver.statuses(run_id) == {"a": "queued"}
    pass_time(clock, 3)
    work(driver, clock, run_id, 1, 2)
    found = ledger_of(driver, run_id)
    assert minutes(found) == {"taskLimit": 40, "queue": 3, "work": 2}
    [held, *_] = found["sums"]
    assert (held["taskId"], held["limit"], held["steps"]) == ("single", 1, 1)
    assert held["label"] == "waiting for a slot of single (limit 1)"
    named = [
        word.strip(" +") for word in re.split(r"\d+ (?:h|min|s)(?: \d+ s)?", found["text"].partition("= ")[2])
    ]
    assert named[1:4] == ["waiting for a slot of single (limit 1)", "queue", "work"]


def test_a_map_is_told_by_the_item_that_ended_last(driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"m": []}, {"list": [1, 2, 3]}, maps={"m": "${input.list}"}, tasks={"m": "single"})
    for ordinal in (2, 3, 4):
        work(driver, clock, run_id, ordinal, 10)
    driver.check(run_id, 1)
    found = ledger_of(driver, run_id)
    assert minutes(found) == {"taskLimit": 20, "work": 10}
    [step] = found["steps"]
    assert (step["stepId"], step["mapIndex"], round(step["ms"] / 60_000)) == ("m", 2, 30)


def test_a_map_that_failed_names_the_item_that_failed_with_its_end(driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"m": []}, {"list": [1, 2, 3]}, maps={"m": "${input.list}"})
    work(driver, clock, run_id, 3, 10, failure=PERMANENT)
    driver.check(run_id, 1)
    [step] = ledger_of(driver, run_id)["steps"]
    assert (step["stepId"], step["mapIndex"], step["status"]) == ("m", 1, "failed")


def test_pauses_of_a_run_and_of_its_tenant_count_as_pauses(driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    with driver.database.transaction() as tx:
        [started] = claiming.start(tx, run_id, [1], 1, worker="w1")
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, run_id))
    pass_time(clock, 4)
    with driver.database.transaction() as tx:
        settle(tx, started)
    pass_time(clock, 10)
    driver.database.run(lambda tx: pausing.resume(tx, driver.tenant, run_id))
    driver.database.run(lambda tx: pauses.pause(tx, driver.tenant, None))
    pass_time(clock, 20)
    driver.database.run(lambda tx: pauses.resume(tx, driver.tenant, None))
    work(driver, clock, run_id, 2, 1)
    assert minutes(ledger_of(driver, run_id)) == {"pause": 30, "work": 5}


def test_a_run_that_waited_for_its_slot_says_so(driver: RunDriver, clock: Clock) -> None:
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    first, second = driver.begin({"a": []}), driver.trigger()
    work(driver, clock, first, 1, 10)
    work(driver, clock, second, 1, 2)
    assert minutes(ledger_of(driver, second)) == {"tenantLimit": 10, "work": 2}


def test_the_time_until_a_dead_letter_is_retried_is_no_work(driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    work(driver, clock, run_id, 1, 5, failure=PERMANENT)
    pass_time(clock, 60)
    [letter] = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id", id=run_id)
    driver.database.run(lambda tx: dead_letters.retry(tx, driver.tenant, letter.id))
    work(driver, clock, run_id, 1, 2, attempt=2)
    work(driver, clock, run_id, 2, 3)
    assert minutes(ledger_of(driver, run_id)) == {"ended": 60, "failedWork": 5, "work": 5}


def test_a_version_is_read_and_parsed_once(driver: RunDriver) -> None:
    """Of 5,000 steps that takes longer than all else."""
    run_id = driver.begin({"a": [], "b": ["a"]})
    other = Database(driver.database.url)
    found: list[list[str]] = []
    for _ in range(2):
        with sent_statements() as sent, other.reading() as tx:
            ledger(tx, driver.tenant, run_id)
        found.append([each for each in sent if "pipeline_versions" in each])
    other.dispose()
    assert [len(each) for each in found] == [1, 0]


def test_another_tenants_run_has_no_ledger(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.reading() as tx, pytest.raises(NotFound):
        ledger(tx, "somebody-else", run_id)


def test_it_reads_the_steps_and_a_bounded_part_of_the_events(
    driver: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a run has far more events than are read, it adds up and knows the work."""
    count = 40
    run_id = driver.begin({"m": [], "z": ["m"]}, {"list": list(range(count))}, maps={"m": "${input.list}"})
    for ordinal in range(3, 3 + count):
        with driver.database.transaction() as tx:
            finish_task_run(tx, run_id, ordinal)
    driver.check(run_id, 1)
    work(driver, clock, run_id, 2, 9)
    monkeypatch.setattr(reading, "EVENTS_AT_AN_END", 5)
    assert minutes(ledger_of(driver, run_id)) == {"work": 9}
    with driver.database.reading() as tx:
        run = reading.run_row(tx, driver.tenant, run_id)
        plans = plans_of(tx, lambda: inside.measure(tx, run), monkeypatch)
    parts = [part for plan in plans for part in parts_of(plan) if "Scan" in part["Node Type"]]
    events = [part for part in parts if part.get("Relation Name", "").startswith("events_")]
    assert 0 < sum(part["Actual Rows"] for part in events) <= 10
    assert {part["Node Type"] for part in events} == {"Index Scan"}
    rows = [part for part in parts if part.get("Relation Name", "").startswith("task_runs_")]
    assert "Seq Scan" not in {part["Node Type"] for part in rows}
    assert sum(part["Actual Rows"] * part["Actual Loops"] for part in rows) <= 2 + count
