"""The second run of a kind begins by what was kept of the first, and must not differ from it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, register
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave.orchestrator.domain.outbox import Chord, Released
from pipeweave.orchestrator.domain.plan import WIDE
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.runs import creation, prepared_starts, row_texts, triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.cache import Caches
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.timeline import Timeline
from pipeweave.orchestrator.store.values import canonical

OWN = ("id", "run_id", "seq", "created_at", "started_at", "queued_at", "at", "written_at", "txid")
CHAIN = {"a": (), "b": ("a",)}
MIDDLE = [f"m{n}" for n in range(WIDE)]
# A join behind steps that end at different times: its chord is sized when the run begins.
UNEVEN: dict[str, Any] = {"a": (), **{each: ("a",) for each in MIDDLE}, "z": ("a", *MIDDLE)}
# A join behind entry steps: their messages are parts of its chord.
GATHERED: dict[str, Any] = {**{each: () for each in MIDDLE}, "z": MIDDLE}
SHAPES = pytest.mark.parametrize(
    ("needs", "tasks"),
    [(CHAIN, {}), (UNEVEN, {}), (GATHERED, {each: each for each in MIDDLE})],
    ids=["a chain", "a join behind uneven steps", "a join behind entry steps"],
)


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, *(a_task(each) for each in ("noop", *MIDDLE)))
    yield made
    made.rows("DELETE FROM pauses WHERE tenant_id = :id RETURNING 1", id=made.tenant)


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The runs that began the long way."""
    ways: list[UUID] = []
    begin = creation._begin

    def noted(tx: Any, new: Any, rows: Any) -> None:
        ways.append(new.header.id)
        begin(tx, new, rows)

    monkeypatch.setattr(creation, "_begin", noted)
    return ways


def shown(driver: RunDriver, run_id: UUID) -> list[Any]:
    """All that was written and sent for a run, but for ids and times."""
    events = driver.rows("SELECT * FROM events WHERE run_id = :id ORDER BY seq", id=run_id)
    rows = [
        {name: each for name, each in row._asdict().items() if name not in OWN}
        for row in (driver.run(run_id), *driver.task_runs(run_id), *events)
    ]
    sent = [each for each in driver.sent if isinstance(each, Released | Chord) and each.run_id == run_id]
    return rows + [str(each).replace(str(run_id), "") for each in sent]


@SHAPES
def test_the_second_run_is_written_and_sent_as_the_first(
    driver: RunDriver, long_ways: list[UUID], needs: dict[str, Any], tasks: dict[str, str]
) -> None:
    driver.store(needs, tasks=tasks)
    first, second = driver.trigger(), driver.trigger()

    assert long_ways == [first]
    assert shown(driver, second) == shown(driver, first)
    assert [row.id.int >> 24 for row in driver.task_runs(second)] == [second.int >> 24] * len(needs)


@pytest.mark.parametrize(
    "asked", [{"priority": 7}, {"queue": "slow"}, {"requires": {"gpu": "a100"}}], ids=lambda each: str(*each)
)
def test_a_run_that_asks_for_something_else_begins_by_what_is_kept_of_its_own_kind(
    driver: RunDriver, long_ways: list[UUID], asked: dict[str, Any]
) -> None:
    driver.store(CHAIN)
    driver.trigger()

    def ask() -> UUID:
        request = StartRequest("driven", **asked)
        return driver.database.run(lambda tx: triggering.trigger(tx, VALUES, driver.tenant, request)).id

    first, second = ask(), ask()
    assert long_ways[1:] == [first]
    assert shown(driver, second) == shown(driver, first)


def batch(driver: RunDriver, *requests: StartRequest) -> list[UUID]:
    made = driver.database.run(
        lambda tx: triggering.trigger_many(tx, VALUES, driver.tenant, "driven", requests)
    )
    return [each.id for each in made]


@pytest.fixture
def found_alike(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each write, whether what its runs have in common was sent once."""
    found: list[bool] = []
    alike = row_texts.alike

    def noted(*args: Any) -> Any:
        parameters = alike(*args)
        found.append(parameters is not None)
        return parameters

    monkeypatch.setattr(row_texts, "alike", noted)
    return found


@SHAPES
def test_the_runs_of_a_batch_are_written_and_sent_as_one_alone(
    driver: RunDriver, found_alike: list[bool], needs: dict[str, Any], tasks: dict[str, str]
) -> None:
    driver.store(needs, tasks=tasks)
    driver.trigger()
    alone = driver.trigger()
    runs = batch(driver, *[StartRequest("driven")] * 3)

    assert found_alike == [False, False, True]
    assert [shown(driver, each) for each in runs] == [shown(driver, alone)] * 3
    for each in runs:
        ids = [row.id.int for row in driver.task_runs(each)]
        assert ids == [each.int + ordinal for ordinal in range(1, len(needs) + 1)]


def test_the_runs_of_a_batch_have_their_own_inputs(driver: RunDriver, found_alike: list[bool]) -> None:
    driver.store(CHAIN)
    driver.trigger()
    inputs = [{}, {"n": 1.5}, {"text": """a "quoted" \\ {x}, 'NULL'"""}]
    runs = batch(driver, *[StartRequest("driven", each) for each in inputs])

    assert found_alike[-1]
    rows = [driver.run(each) for each in runs]
    assert [row.input for row in rows] == inputs
    created = [driver.events(each, "run.created")[0] for each in runs]
    assert [row.inputs_hash for row in rows] == [each.data["inputsHash"] for each in created]
    assert len({row.inputs_hash for row in rows}) == 3
    assert [row.input_size for row in rows] == [len(canonical(each)) for each in inputs]


@pytest.mark.parametrize("asked", [{"metadata": {"a": 1}}, {"priority": 7}], ids=lambda each: str(*each))
def test_a_batch_with_another_run_among_its_runs_writes_each_for_itself(
    driver: RunDriver, found_alike: list[bool], asked: dict[str, Any]
) -> None:
    driver.store(CHAIN)
    driver.trigger(priority=7)
    driver.trigger()
    [name] = asked
    runs = batch(driver, StartRequest("driven"), StartRequest("driven", **asked), StartRequest("driven"))

    assert not found_alike[-1]
    assert [getattr(driver.run(each), name) for each in runs] == [None, asked[name], None]


def test_a_batch_after_a_change_has_the_change(driver: RunDriver, found_alike: list[bool]) -> None:
    driver.store(CHAIN)
    driver.trigger()
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("noop", code="second", priority=9))
    runs = batch(driver, *[StartRequest("driven")] * 2)
    assert found_alike[1]  # it was tried, and the guard refused it
    assert {row.code_version for each in runs for row in driver.task_runs(each)} == {2}

    driver.database.run(lambda tx: pauses.pause(tx, driver.tenant, "noop"))
    held = batch(driver, *[StartRequest("driven")] * 2)
    assert [driver.statuses(each) for each in held] == [{"a": "ready", "b": "pending"}] * 2


def test_a_run_under_a_pause_is_held_back_and_one_after_it_is_not(driver: RunDriver) -> None:
    driver.store(CHAIN)
    driver.trigger()
    driver.database.run(lambda tx: pauses.pause(tx, driver.tenant, "noop"))
    held = driver.trigger()
    assert driver.statuses(held) == {"a": "ready", "b": "pending"}
    assert driver.released(held) == []

    driver.database.run(lambda tx: pauses.resume(tx, driver.tenant, "noop"))
    assert driver.statuses(driver.trigger()) == {"a": "queued", "b": "pending"}


def test_a_run_after_a_change_of_the_task_or_the_pipeline_has_the_change(driver: RunDriver) -> None:
    driver.store(CHAIN)
    driver.trigger()
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("noop", code="second", priority=9))
    changed = driver.task_runs(driver.trigger())
    assert [(row.priority, row.code_version) for row in changed] == [(9, 2), (9, 2)]

    driver.store({"other": ()})
    assert driver.statuses(driver.trigger()) == {"other": "queued"}


def test_a_run_with_a_token_is_kept_for_the_next_one(driver: RunDriver, long_ways: list[UUID]) -> None:
    """It reads the catalog anew, and finds it as it was."""
    driver.store(CHAIN)
    driver.trigger()
    driver.trigger(run_token="one")
    driver.trigger(run_token="two")
    assert len(long_ways) == 1


def test_entry_steps_of_one_task_are_not_kept_since_workers_decide_how_wide_their_messages_are(
    driver: RunDriver, long_ways: list[UUID]
) -> None:
    driver.store({"a": (), "b": ()})
    runs = [driver.trigger(), driver.trigger()]
    assert long_ways == runs


def test_only_a_few_kinds_are_kept(driver: RunDriver) -> None:
    driver.store(CHAIN)
    for priority in range(2 * prepared_starts.MOST_KINDS):
        driver.trigger(priority=priority)
    with driver.database.transaction() as tx:
        catalog = triggering.snapshot.last_snapshot(tx, driver.tenant, "driven")
    assert catalog is not None
    assert 0 < len(catalog.kept) <= prepared_starts.MOST_KINDS


def test_after_a_promotion_that_lost_a_version_the_next_one_of_its_number_is_run(driver: RunDriver) -> None:
    """What this process knew of the lost version must not begin the runs of another."""
    timeline = Timeline()
    timeline.record("00000001")
    driver.database.caches = Caches(timeline)
    driver.store(CHAIN)
    driver.trigger()
    with driver.database.transaction() as tx:
        for table in ("pipeline_versions", "pipelines"):
            tx.execute(f"DELETE FROM {table} WHERE tenant_id = :id", {"id": driver.tenant})
    elsewhere = copy.copy(driver)
    elsewhere.database = copy.copy(driver.database)
    elsewhere.database.caches = Caches()
    assert elsewhere.store({"other": ()}) == 1

    timeline.record("00000002")
    assert driver.statuses(driver.trigger()) == {"other": "queued"}
