"""Maps over values in storage: loaded while no transaction is open, and what happens when they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from support.memory_storage import MemoryStorage
from support.nesting import nested
from support.run_driver import RunDriver, finish_step, finish_task_run, header
from support.stored_values import values_in

from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain.outbox import Chord, JoinCheck
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import INLINE_BYTES, MAX_JSON_DEPTH

BEHIND: dict[str, list[str]] = {"a": [], "m": ["a"]}
OVER_A = {"m": "${steps.a.rows}"}
PADDING = "x" * INLINE_BYTES
LARGE = {"rows": [1, 2, 3], "padding": PADDING}

M = 2


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def driver(fresh_database_url: str, storage: MemoryStorage) -> Iterator[RunDriver]:
    database = Database(fresh_database_url, react=reactions_to)
    yield RunDriver(database, values=values_in(storage))
    database.dispose()


def checks(driver: RunDriver) -> list[JoinCheck]:
    return [each for each in driver.sent if isinstance(each, JoinCheck)]


def items(driver: RunDriver, run_id: UUID) -> list[Any]:
    return [row.item for row in driver.task_runs(run_id) if row.kind == "item"]


def map_of(driver: RunDriver, run_id: UUID) -> Any:
    return next(row for row in driver.task_runs(run_id) if row.kind == "map")


def ready_for_a_stored_map(driver: RunDriver, **members: Any) -> UUID:
    """A run whose step `a` has completed with a large output; the map `m` over it is still pending."""
    run_id = driver.begin(BEHIND, maps=OVER_A, **members)
    driver.finish(run_id, "a", output=LARGE)
    return run_id


_IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()
"""


def test_storage_is_never_read_while_a_transaction_is_open(driver: RunDriver, storage: MemoryStorage) -> None:
    watcher = Database(driver.database.url, pool_size=1)
    open_transactions: list[int] = []

    def look() -> None:
        with watcher.statements() as tx:
            open_transactions.append(tx.execute(_IN_TRANSACTION).scalar_one())

    run_id = driver.begin(BEHIND, maps=OVER_A)
    kept = values_in(storage).keep(LARGE)
    storage.before_use = look
    with driver.database.transaction() as tx:
        finish_step(tx, run_id, "a", output=kept)
    driver.check(run_id, M)
    assert len(storage.reads) == 1
    assert set(open_transactions) == {0}
    assert len(items(driver, run_id)) == 3


def test_a_step_is_stored_though_its_successor_maps_over_a_value_in_storage(
    driver: RunDriver, storage: MemoryStorage
) -> None:
    run_id = ready_for_a_stored_map(driver)
    assert driver.statuses(run_id) == {"a": "completed", "m": "pending"}
    assert checks(driver) == [JoinCheck(run_id, M, map_of(driver, run_id).queue)]
    assert storage.reads == []

    driver.check(run_id, M)
    assert driver.statuses(run_id)["m"] == "waiting"
    assert items(driver, run_id) == LARGE["rows"]


def test_a_map_waits_for_storage_that_is_away_and_the_tick_asks_again(
    driver: RunDriver, storage: MemoryStorage
) -> None:
    run_id = ready_for_a_stored_map(driver)
    storage.is_away = True
    driver.check(run_id, M)
    assert driver.statuses(run_id) == {"a": "completed", "m": "pending"}
    with driver.database.transaction() as tx:
        [check] = closed_joins(tx, {run_id: header(tx, run_id).plan})

    storage.is_away = False
    driver.check(check.run_id, check.join)
    assert len(items(driver, run_id)) == 3


@pytest.mark.parametrize(("content", "code"), [(None, "NOT_FOUND"), (b"{", "CORRUPT_VALUE")])
def test_a_value_that_cannot_be_read_fails_the_map_with_a_recorded_error(
    driver: RunDriver, storage: MemoryStorage, content: bytes | None, code: str
) -> None:
    run_id = ready_for_a_stored_map(driver)
    [path] = storage.objects
    storage.objects = {} if content is None else {path: content}
    driver.check(run_id, M)
    failed = map_of(driver, run_id)
    assert (failed.status, failed.error_code) == ("failed", code)
    assert path in failed.error["message"]
    assert driver.run(run_id).status == "failed"
    assert len(driver.rows("SELECT 1 FROM dead_letters WHERE task_run_id = :id", id=failed.id)) == 1


def test_a_check_that_comes_twice_lays_out_a_map_once(driver: RunDriver, storage: MemoryStorage) -> None:
    run_id = ready_for_a_stored_map(driver)
    driver.check(run_id, M)
    driver.check(run_id, M)
    assert len(items(driver, run_id)) == 3
    assert len(storage.reads) == 1


def test_only_the_items_that_the_map_refers_to_are_loaded(driver: RunDriver, storage: MemoryStorage) -> None:
    needs = {"a": [], "n": ["a"]}
    run_id = driver.begin(
        needs, [1, 2, 3], maps={"a": "${input}", "n": "${steps.a[-3].rows}"}, failureMode="continue"
    )
    with driver.database.transaction() as tx:
        for ordinal, text in zip((3, 4, 5), "xyz", strict=True):
            output = driver.values.keep({"rows": [text], "padding": PADDING})
            finish_task_run(tx, run_id, ordinal, output=output)
    driver.check(run_id, 1)
    driver.check(run_id, 2)
    assert len(storage.objects) == 3
    assert len(storage.reads) == 1
    assert items(driver, run_id)[3:] == ["x"]


def test_a_reference_beyond_a_map_s_items_fails_as_before(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "n": ["a"]}, [1, 2], maps={"a": "${input}", "n": "${steps.a[2]}"})
    with driver.database.transaction() as tx:
        for ordinal in (3, 4):
            finish_task_run(tx, run_id, ordinal, output=[1])
    driver.check(run_id, 1)
    assert driver.task_runs(run_id)[1].error_code == "INVALID_REFERENCE"


def test_an_entry_map_over_a_large_input_reads_nothing_back(
    driver: RunDriver, storage: MemoryStorage
) -> None:
    run_id = driver.begin({"m": []}, LARGE, maps={"m": "${input.rows}"})
    assert items(driver, run_id) == LARGE["rows"]
    assert storage.reads == []


def test_a_pending_run_is_admitted_while_storage_is_away(driver: RunDriver, storage: MemoryStorage) -> None:
    driver.store({"m": []}, id="mapped", maps={"m": "${input.rows}"})
    driver.store({"a": []}, id="first")
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    first = driver.trigger("first")
    waiting = driver.trigger("mapped", LARGE)
    assert driver.run(waiting).status == "pending"
    storage.is_away = True
    driver.finish(first, "a")
    assert driver.run(waiting).status == "running"
    assert [each.join for each in checks(driver)] == [1]

    storage.is_away = False
    driver.check(waiting, 1)
    assert items(driver, waiting) == LARGE["rows"]


def test_a_chord_of_sibling_maps_keeps_its_size_when_they_are_laid_out_one_by_one(
    driver: RunDriver,
) -> None:
    names = [f"m{number}" for number in range(8)]
    needs = {"a": [], **{name: ["a"] for name in names}, "end": names}
    run_id = driver.begin(needs, maps=dict.fromkeys(names, "${steps.a.rows}"))
    driver.finish(run_id, "a", output=LARGE)
    for ordinal in range(2, 10):
        driver.check(run_id, ordinal)
    chords = [each for each in driver.sent if isinstance(each, Chord) and each.join == 10]
    assert chords == [Chord(run_id, 10, 8)]


def test_an_inline_source_takes_one_transaction(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = driver.begin(BEHIND, maps={"m": "${steps.a}"})
    begun: list[object] = []
    run = Database.run

    def counted(database: Database, *arguments: Any, **options: Any) -> Any:
        begun.append(arguments)
        return run(database, *arguments, **options)

    monkeypatch.setattr(Database, "run", counted)
    driver.finish(run_id, "a", output=[1, 2])
    assert (begun, len(items(driver, run_id)), checks(driver)) == ([], 2, [])


def test_an_item_that_is_nested_too_deep_fails_the_map(driver: RunDriver) -> None:
    """An output is deep, and the step puts it deep into a list."""
    run_id = driver.begin(BEHIND, maps={"m": [nested(60, "${steps.a}")]})
    driver.finish(run_id, "a", output=nested(MAX_JSON_DEPTH - 20))
    assert driver.statuses(run_id) == {"a": "completed", "m": "failed"}
    assert "deeper than 200 levels" in map_of(driver, run_id).error["message"]
