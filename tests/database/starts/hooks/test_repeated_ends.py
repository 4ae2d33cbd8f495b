"""A run that a redrive repairs ends after each batch; its hooks and triggers fire for the last end alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.failed_runs import WIDE, failed_run
from support.inline_worker import InlineWorker, failing
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.operations import redrives
from pipeweave.orchestrator.operations.pace import Pace
from pipeweave.orchestrator.reading import run as read_run
from pipeweave.orchestrator.reading import run_steps
from pipeweave.orchestrator.starts import event_consumer
from pipeweave.orchestrator.starts.hooks import repeated_ends, run_starts
from pipeweave.orchestrator.starts.triggers import TriggerSpec, event_starts, storing
from pipeweave.spec.rules import PARTIAL_MERGE

JOINED = {**{each: [] for each in WIDE}, "join": list(WIDE)}


@pytest.fixture
def worker(isolated_driver: RunDriver) -> Iterator[InlineWorker]:
    """Alone in its database, because the chores look at all tenants."""
    isolated_driver.store({"b": []}, id="alert")
    yield InlineWorker(isolated_driver)


def tick(worker: InlineWorker) -> None:
    """What the tick does, in its order; what was postponed is due."""
    driver = worker.driver
    redrives.run_once(driver.database, VALUES)
    event_consumer.run_once(driver.database)
    for table in ("hook_fires", "event_fires"):
        driver.rows(f"UPDATE {table} SET due_at = now() WHERE due_at IS NOT NULL RETURNING id")
    run_starts.run_once(driver.database, VALUES)
    event_starts.run_once(driver.database, VALUES)


def outcomes(worker: InlineWorker, table: str) -> list[tuple[str, str | None]]:
    return [(row.outcome, row.reason) for row in worker.driver.rows(f"SELECT * FROM {table} ORDER BY seq")]


def repaired_in_batches(worker: InlineWorker, **hooks: Any) -> Any:
    """A partial run, and a redrive with a canary that repairs one of its steps and has the others to go."""
    driver = worker.driver
    run_id = failed_run(worker, JOINED, *WIDE[1:], failureMode=PARTIAL_MERGE, **hooks)
    tick(worker)
    assert driver.run(run_id).status == "partial"
    driver.database.run(lambda tx: redrives.create(tx, driver.tenant, LetterFilter(), Pace(canary=1)))
    redrives.run_once(driver.database, VALUES)
    return run_id


def test_a_hook_waits_for_the_last_end_of_a_redrive(worker: InlineWorker) -> None:
    run_id = repaired_in_batches(worker, onPartial="alert", onSuccess="alert")
    assert outcomes(worker, "hook_fires") == [("fired", None)], "the end before the redrive"
    worker.fails.pop(WIDE[1])
    worker.consume_all()
    assert worker.driver.run(run_id).status == "partial", "the canary ended"
    # The reader is faster than the redrive.
    event_consumer.run_once(worker.driver.database)
    run_starts.run_once(worker.driver.database, VALUES)
    assert outcomes(worker, "hook_fires")[1:] == [("waiting", None)]
    worker.fails = {}
    tick(worker)
    worker.consume_all()
    tick(worker)
    assert worker.driver.run(run_id).status == "completed"
    assert outcomes(worker, "hook_fires")[1:] == [("skipped", repeated_ends.CONTINUED), ("fired", None)]
    alerts = worker.driver.rows("SELECT * FROM runs WHERE pipeline_id = 'alert' ORDER BY id")
    assert [each.triggered_id for each in alerts] == ["driven.onPartial", "driven.onSuccess"]


def test_a_hook_fires_for_the_canary_when_the_redrive_stops_with_it(worker: InlineWorker) -> None:
    repaired_in_batches(worker, onPartial="alert")
    worker.consume_all()
    event_consumer.run_once(worker.driver.database)
    tick(worker)
    tick(worker)
    assert outcomes(worker, "hook_fires") == [("fired", None), ("fired", None)]


def test_a_trigger_waits_for_the_last_end_of_a_redrive(worker: InlineWorker) -> None:
    driver = worker.driver
    given = TriggerSpec(
        kind="event", pipeline_id="alert", event="pipeline-completed", filter={"pipelineId": "driven"}
    )
    driver.database.run(lambda tx: storing.put(tx, None, driver.tenant, "next", given))
    repaired_in_batches(worker)
    worker.fails = {}
    worker.consume_all()
    event_consumer.run_once(driver.database)
    event_starts.run_once(driver.database, VALUES)
    tick(worker)
    worker.consume_all()
    tick(worker)
    found = [each for each in outcomes(worker, "event_fires") if each[0] != "waiting"]
    assert found[:3] == [("fired", None), ("skipped", repeated_ends.CONTINUED), ("fired", None)]


def test_the_steps_that_have_not_seen_a_repair_are_named_and_the_time_between_is_not_counted(
    worker: InlineWorker,
) -> None:
    driver = worker.driver
    run_id = failed_run(worker, JOINED, *WIDE[1:], failureMode=PARTIAL_MERGE)
    with driver.database.reading() as tx:
        assert read_run(tx, driver.tenant, run_id)["ranBefore"] == []
    driver.rows(
        "UPDATE runs SET started_at = started_at - interval '1 hour', finished_at = finished_at -"
        " interval '50 minutes' WHERE id = :id RETURNING id",
        id=run_id,
    )
    for table, times in (("attempts", ("started_at", "finished_at")), ("events", ("at",))):
        moved = ", ".join(f"{each} = {each} - interval '50 minutes'" for each in times)
        driver.rows(f"UPDATE {table} SET {moved} WHERE run_id = :id RETURNING run_id", id=run_id)
    driver.database.run(lambda tx: redrives.create(tx, driver.tenant, LetterFilter()))
    worker.fails = {}
    redrives.run_once(driver.database, VALUES)
    worker.consume_all()
    with driver.database.reading() as tx:
        found = read_run(tx, driver.tenant, run_id)
        steps = {each["id"]: each for each in run_steps(tx, run_id, found)}
    assert found["status"] == "completed"
    repaired = steps[WIDE[1]]
    assert repaired["attempt"] == 2 and repaired["durationMs"] < 20 * 60_000 < repaired["overMs"]
    assert found["ranBefore"] == [{"stepId": "join", "repaired": list(WIDE[1:])}]
    assert 9 * 60_000 < found["durationMs"] < 20 * 60_000


def test_a_map_whose_items_failed_again_was_not_repaired(worker: InlineWorker) -> None:
    driver = worker.driver
    failing_items = ("m", 1), ("m", 2)
    run_id = failed_run(
        worker,
        {"m": [], "join": ["m"]},
        *failing_items,
        input=[1, 2, 3],
        maps={"m": "${input}"},
        failureMode=PARTIAL_MERGE,
    )
    for still_failing, repaired in ((failing_items, []), (failing_items[:1], ["m"])):
        driver.database.run(lambda tx: redrives.create(tx, driver.tenant, LetterFilter()))
        worker.fails = failing(*still_failing)
        redrives.run_once(driver.database, VALUES)
        worker.consume_all()
        with driver.database.reading() as tx:
            found = read_run(tx, driver.tenant, run_id)
        assert found["status"] == "partial"
        assert [each["repaired"] for each in found["ranBefore"]] == ([repaired] if repaired else [])
