"""A store that hangs, or is away, delays those waits alone that need something of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.child_runs import child, children
from support.memory_storage import MemoryStorage, SilentStorage
from support.run_driver import RunDriver
from support.sent_statements import sent_statements
from support.stored_values import VALUES, values_in
from support.suspended_runs import SuspendedRuns
from support.waiting_runs import WaitingRuns

from pipeweave.beside import Beside
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.waits import due
from pipeweave.orchestrator.waits.loading import ASK_AGAIN_AFTER
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import MapSpec, StepSpec
from pipeweave.spec.wait_steps import SignalWait, Sleep

DAY_MS = 86_400_000
LARGE = "x" * (2 * INLINE_BYTES)


@pytest.fixture
def store() -> Iterator[SilentStorage]:
    """It has what the tests of this process store."""
    made = SilentStorage()
    made.objects = stored_objects()
    yield made
    made.answers.set()


def stored_objects() -> dict[str, bytes]:
    storage: Any = VALUES.backends.get(VALUES.backends.default_id)
    objects: dict[str, bytes] = storage.objects
    return objects


def make_due(driver: RunDriver) -> None:
    driver.rows("UPDATE waits SET due_at = now() - interval '1 s', timeout_at = now() RETURNING run_id")


def is_true(driver: RunDriver, condition: str) -> bool:
    [row] = driver.rows(f"SELECT {condition} AS holds")
    return bool(row.holds)


def test_timers_of_others_end_while_a_payload_waits_for_a_store_that_hangs(
    isolated_runs: WaitingRuns, store: SilentStorage
) -> None:
    driver = isolated_runs.driver
    database, others = driver.database, WaitingRuns(RunDriver(driver.database))
    asleep = others.begin({"sleep": Sleep(ms=DAY_MS)})
    make_due(driver)
    paid = isolated_runs.begin({"paid": SignalWait(("paid",))})
    isolated_runs.send(paid, "paid", LARGE)
    loading = Beside(lambda: due.run_stored(database, values_in(store)), "loads")
    assert store.asked.acquire(timeout=60)
    assert due.run_once(database) == 1
    assert driver.statuses(asleep)["sleep"] == "completed"
    assert driver.statuses(paid)["paid"] == "waiting"
    # Who loads has the lease: no second process asks the store for the same.
    assert due.run_stored(database, driver.values) == 0
    store.answers.set()
    assert loading.result(60) == 1
    assert driver.statuses(paid)["paid"] == "completed"


def test_a_look_at_what_is_due_leaves_to_storage_what_needs_it(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))})
    isolated_runs.send(run_id, "paid", LARGE, look=False)
    assert not is_true(driver, due.IS_STORED_DUE)
    assert due.run_once(driver.database) == 0
    assert (is_true(driver, due.IS_DUE), is_true(driver, due.IS_STORED_DUE)) == (False, True)
    assert due.run_stored(driver.database, driver.values) == 1


def test_a_store_that_is_away_is_asked_again_in_a_while(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))})
    isolated_runs.send(run_id, "paid", LARGE)
    assert due.run_stored(driver.database, values_in(MemoryStorage(is_away=True))) == 0
    [wait] = isolated_runs.waits(run_id)
    assert timedelta() < wait.due_at - driver.database.now() <= ASK_AGAIN_AFTER
    assert not is_true(driver, due.IS_STORED_DUE)
    driver.rows("UPDATE waits SET due_at = now() RETURNING run_id")
    assert due.run_stored(driver.database, driver.values) == 1
    assert driver.statuses(run_id)["paid"] == "completed"


def test_nothing_is_loaded_in_maintenance(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))})
    isolated_runs.send(run_id, "paid", LARGE)
    driver.rows("UPDATE orchestrator_state SET mode = 'maintenance' RETURNING mode")
    assert not is_true(driver, due.MAY_BE_LOADED)
    assert due.run_stored(driver.database, driver.values) == 0
    assert driver.statuses(run_id)["paid"] == "waiting"


def test_a_report_that_is_in_storage_ends_its_wait_when_it_is_loaded(
    isolated_suspended: SuspendedRuns,
) -> None:
    runs = isolated_suspended
    run_id = runs.begin()
    runs.report(run_id, LARGE)
    assert due.run_once(runs.driver.database) == 0
    assert due.run_stored(runs.driver.database, runs.driver.values) == 1
    assert runs.driver.values.load(None, runs.row(run_id).output_path) == LARGE


def test_a_child_whose_params_are_in_storage_starts_when_they_are_loaded(
    isolated_runs: WaitingRuns,
) -> None:
    driver = isolated_runs.driver
    driver.store({"work": []}, id="inner")
    call = child("call", "inner", ("start",), params={"text": "${steps.start}"})
    driver.store_steps(StepSpec("start", "noop"), call)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output=LARGE)
    assert is_true(driver, due.IS_STORED_DUE)
    assert not is_true(driver, due.IS_DUE)
    assert children(driver, run_id) == []
    due.run_stored(driver.database, driver.values)
    [inner] = children(driver, run_id)
    driver.finish(inner.id, "work", output=1)
    assert driver.run(run_id).status == "completed"


@pytest.fixture
def two_steps(isolated_runs: WaitingRuns) -> RunDriver:
    """Of a pipeline `inner` of one step."""
    driver = isolated_runs.driver
    driver.store({"work": []}, id="inner")
    return driver


def test_children_whose_input_cannot_be_stored_start_when_storage_is_back(two_steps: RunDriver) -> None:
    driver = two_steps
    names = [f"{number}{'x' * (INLINE_BYTES - 100)}" for number in range(3)]
    mapped = child("each", "inner", map=MapSpec("${input}"), params={"twice": "${item}${item}"})
    driver.store_steps(mapped, StepSpec("end", "noop", ("each",)))
    away = values_in(MemoryStorage(is_away=True))
    run_id = driver.trigger(input=names)
    assert is_true(driver, due.IS_STORED_DUE)
    # 503 from storage, twice: nothing starts, nothing fails, and nothing is lost.
    assert due.run_stored(driver.database, away) == 0
    assert not is_true(driver, due.IS_STORED_DUE)
    driver.rows("UPDATE waits SET due_at = now() RETURNING run_id")
    assert due.run_stored(driver.database, away) == 0
    assert children(driver, run_id) == []
    assert driver.statuses(run_id) == {"each": "waiting", "end": "pending"}
    driver.rows("UPDATE waits SET due_at = now() RETURNING run_id")
    due.run_stored(driver.database, driver.values)
    begun = children(driver, run_id)
    inputs = [driver.values.load(None, each.input_path) for each in begun]
    assert [each["twice"] for each in inputs] == [2 * each for each in names]
    for each in begun:
        driver.finish(each.id, "work")
    assert driver.statuses(run_id) == {"each": "completed", "end": "queued"}


def test_a_child_that_cannot_start_because_its_input_cannot_be_stored_has_written_nothing(
    two_steps: RunDriver,
) -> None:
    driver = two_steps
    driver.store_steps(child("call", "inner", params={"text": "${input}${input}"}))
    run_id = driver.trigger(input="x" * (INLINE_BYTES - 100))
    [before] = driver.rows("SELECT task_run_id, attempt, data FROM waits WHERE run_id = :id", id=run_id)
    assert due.run_stored(driver.database, values_in(MemoryStorage(is_away=True))) == 0
    [after] = driver.rows("SELECT task_run_id, attempt, data FROM waits WHERE run_id = :id", id=run_id)
    assert after == before
    driver.rows("UPDATE waits SET due_at = now() RETURNING run_id")
    due.run_stored(driver.database, driver.values)
    [begun] = children(driver, run_id)
    assert str(begun.id) == before.data["run"]


# --- many at once -----------------------------------------------------------------------------------------


def test_many_waits_that_need_storage_share_transactions_and_what_they_need_is_loaded_once(
    isolated_runs: WaitingRuns,
) -> None:
    driver = isolated_runs.driver
    store = MemoryStorage(objects=stored_objects())
    driver.store({"work": []}, id="inner")
    mapped = child("each", "inner", ("start",), map=MapSpec([1, 2, 3, 4]), params={"text": "${steps.start}"})
    driver.store_steps(StepSpec("start", "noop"), mapped)
    run_id = driver.trigger()
    driver.finish(run_id, "start", output=LARGE)
    store.reads.clear()
    with sent_statements() as sent:
        due.run_stored(driver.database, values_in(store))
    assert len(children(driver, run_id)) == 4
    assert len(store.reads) == 1
    # The mode, the lease and its end, what is due; a look, and two tries to start them.
    assert sent.commits <= 8


def test_one_value_that_storage_does_not_give_delays_no_other_wait(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    store = MemoryStorage(objects=stored_objects())
    runs = [isolated_runs.begin({"paid": SignalWait(("paid",))}) for _ in range(3)]
    for number, each in enumerate(runs):
        isolated_runs.send(each, "paid", f"{number}{LARGE}")
    lost = driver.rows("SELECT payload_path FROM signals WHERE run_id = :id", id=runs[0])[0].payload_path
    values = values_in(store)
    load = values.load

    def load_but_one(inline: Any, path: str | None) -> Any:
        if path == lost:
            raise Unavailable("its store is away")
        return load(inline, path)

    values.load = load_but_one  # type: ignore[method-assign]
    assert due.run_stored(driver.database, values) == 2
    assert [driver.statuses(each)["paid"] for each in runs] == ["waiting", "completed", "completed"]
