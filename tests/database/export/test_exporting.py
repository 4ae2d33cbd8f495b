"""Exports hand out every row once, in order, whatever interrupts them and wherever they go on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
import pytest
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, finish_task_run
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.export import KINDS, ChosenRuns, Export, Position, Stores, chosen, exporting, logs
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.store.database import Database

STORES = Stores(VALUES.backends, None)


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few rows make many parts."""
    monkeypatch.setattr(exporting, "ROWS", 2)
    monkeypatch.setattr(exporting, "EVENTS", 3)
    monkeypatch.setattr(chosen, "RUNS_AT_ONCE", 2)
    monkeypatch.setattr(logs, "TASK_RUNS", 2)
    monkeypatch.setattr(logs, "BYTES", 30)


def export_of(driver: RunDriver, kind: str, chosen: ChosenRuns | None = None) -> Export:
    return Export(driver.database, STORES, driver.tenant, kind, chosen or ChosenRuns())


def rows_of(export: Export, position: Position | None = None) -> list[dict[str, Any]]:
    parts = list(export.parts(position or Position()))
    assert parts[-1].is_last
    assert not any(each.is_last for each in parts[:-1])
    found = [orjson.loads(line) for each in parts for line in each.content.splitlines()]
    assert len(found) == sum(each.rows for each in parts)
    return found


@pytest.fixture
def history(driver: RunDriver) -> list[UUID]:
    """Five runs: completed, waiting for a retry, open, with a map, and failed."""
    driver.store({"a": [], "b": ["a"]})
    runs = [driver.trigger(input={"n": n}) for n in range(3)]
    driver.finish(runs[0], "a", "b", output=1)
    driver.finish(runs[1], "a", failure=TRANSIENT)
    driver.store({"m": []}, id="mapped", maps={"m": "${input.list}"})
    runs.append(driver.trigger("mapped", {"list": [1, 2, 3]}))
    for ordinal in (2, 3):
        with driver.database.transaction() as tx:
            finish_task_run(tx, runs[3], ordinal, output=ordinal)
    driver.store({"a": []}, id="other", tasks={"a": "single"})
    runs.append(driver.trigger("other"))
    driver.finish(runs[4], "a", failure=PERMANENT)
    return runs


def stored_log(driver: RunDriver, run_id: UUID, ordinal: int, *messages: str) -> None:
    storage = VALUES.backends.get(VALUES.backends.choose(driver.tenant, "driven"))
    path = paths.log_paths(None, ids.task_run_id(run_id, ordinal), 1)[0]
    storage.put(path, b"".join(orjson.dumps({"message": each}) + b"\n" for each in messages))


def test_runs_are_records_of_their_own(driver: RunDriver, history: list[UUID]) -> None:
    found = rows_of(export_of(driver, "runs"))
    assert [each["id"] for each in found] == [ids.show(ids.RUN, each) for each in history]
    first = found[0]
    assert (first["tenant"], first["status"], first["input"]) == (driver.tenant, "completed", {"n": 0})
    assert (first["traceId"], len(first["inputsHash"])) == (history[0].hex, 64)
    assert first["startedUtc"] is not None is not first["endedUtc"]
    assert first["logsRef"].endswith(first["id"])


def test_task_runs_say_what_they_were_given_and_what_they_gave(
    driver: RunDriver, history: list[UUID]
) -> None:
    found = rows_of(export_of(driver, "task-runs"))
    assert len(found) == 2 * 3 + 4 + 1
    a, b = found[:2]
    assert (a["stepId"], a["runId"], a["pipelineId"]) == ("a", ids.show(ids.RUN, history[0]), "driven")
    assert a["inputsHash"] == rows_of(export_of(driver, "runs"))[0]["inputsHash"]
    assert a["outputsHash"] == b["outputsHash"] is not None
    map_, *items = [each for each in found if each["pipelineId"] == "mapped"]
    assert [each["mapIndex"] for each in items] == [0, 1, 2]
    assert len({each["inputsHash"] for each in (map_, *items)}) == 4
    assert map_["outputsHash"] is None, "it has not completed"


def test_attempts_are_all_that_began(driver: RunDriver, history: list[UUID]) -> None:
    found = rows_of(export_of(driver, "attempts"))
    shown = {(each["runId"], each["stepId"], each["number"], each["status"]) for each in found}
    assert len({(each["taskRunId"], each["number"]) for each in found}) == len(found) == 6
    assert (ids.show(ids.RUN, history[1]), "a", 1, "failed") in shown
    assert (ids.show(ids.RUN, history[4]), "a", 1, "failed") in shown
    assert sum(each["runId"] == ids.show(ids.RUN, history[0]) for each in found) == 2


def test_events_are_in_the_order_of_runs_and_then_of_their_numbers(
    driver: RunDriver, history: list[UUID]
) -> None:
    found = rows_of(export_of(driver, "events"))
    keys = [(each["runId"], each["seq"]) for each in found]
    assert keys == sorted(keys)
    counted = driver.rows("SELECT count(*) FROM events WHERE run_id = ANY(:ids)", ids=history)
    assert len(found) == counted[0][0]
    assert {each["traceId"] for each in found} == {each.hex for each in history}


def test_logs_are_lines_with_their_attempts(driver: RunDriver, history: list[UUID]) -> None:
    stored_log(driver, history[0], 1, "one", "two")
    stored_log(driver, history[0], 2, "three")
    found = rows_of(export_of(driver, "logs"))
    assert [(each["stepId"], each["attempt"], each["message"]) for each in found] == [
        ("a", 1, "one"),
        ("a", 1, "two"),
        ("b", 1, "three"),
    ]
    assert {each["runId"] for each in found} == {ids.show(ids.RUN, history[0])}


def test_lines_of_items_of_a_map_say_which_item(driver: RunDriver, history: list[UUID]) -> None:
    (mapped,) = {
        each["runId"] for each in rows_of(export_of(driver, "task-runs")) if each["mapIndex"] is not None
    }
    for ordinal in (1, 2, 3):
        stored_log(driver, ids.read(ids.RUN, mapped), ordinal, "said")
    found = rows_of(export_of(driver, "logs"))
    assert {each.get("mapIndex") for each in found} & {0, 1, 2}
    assert all(each["stepId"] for each in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("small_pages")
def test_an_export_goes_on_after_any_part_without_a_gap_or_a_double(
    driver: RunDriver, history: list[UUID], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeweave.orchestrator.kept.stored_logs.MAX_LOG_ANSWER_BYTES", 40)
    for ordinal in (1, 2):
        stored_log(driver, history[0], ordinal, *(f"line {n} of {ordinal}" for n in range(4)))
    export = export_of(driver, kind)
    parts = list(export.parts(Position()))
    assert len(parts) > 3
    whole = [line for each in parts for line in each.content.splitlines()]
    assert len(whole) == len(set(whole))
    done: list[bytes] = []
    for each in parts:
        done += each.content.splitlines()
        after = export.parts(export.position(each.cursor))
        assert done + [line for rest in after for line in rest.content.splitlines()] == whole


@pytest.mark.parametrize("kind", ["task-runs", "events"])
@pytest.mark.usefixtures("small_pages")
def test_large_runs_and_small_ones_are_read_alike(
    driver: RunDriver, history: list[UUID], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_pages = rows_of(export_of(driver, kind))
    monkeypatch.undo()
    assert rows_of(export_of(driver, kind)) == in_pages


def test_filters_choose_runs(driver: RunDriver, history: list[UUID]) -> None:
    def chosen_by(run: UUID | None = None, **filters: Any) -> list[int]:
        found = rows_of(export_of(driver, "runs", ChosenRuns(run, RunFilter(**filters))))
        return [history.index(ids.read(ids.RUN, each["id"])) for each in found]

    assert chosen_by(run=history[2]) == [2]
    assert chosen_by(pipeline_id=("driven",)) == [0, 1, 2]
    assert chosen_by(pipeline_id=("other", "driven", "other")) == [0, 1, 2, 4]
    assert chosen_by(status=("failed",)) == [4]
    assert chosen_by(status=("failed", "completed")) == [0, 4]
    assert chosen_by(pipeline_id=("driven",), status=("completed",)) == [0]
    assert chosen_by(triggered_kind="schedule") == []
    assert chosen_by(triggered_kind="api") == [0, 1, 2, 3, 4]
    assert chosen_by(text='"N": 1') == [1]
    assert chosen_by(text=ids.show(ids.RUN, history[3])) == [3]
    assert chosen_by(run=history[3], text=ids.show(ids.RUN, history[2])) == []
    assert chosen_by(id_prefix=ids.show(ids.RUN, history[1])) == [1]
    assert chosen_by(version=2) == []
    assert chosen_by(version=1, metadata={"a": "b"}) == []
    assert chosen_by(min_ms=0, status=("completed", "failed")) == [0, 4]
    assert chosen_by(min_ms=10**9) == []
    assert chosen_by(task_id="single") == [4]
    created = driver.run(history[0]).created_at
    assert chosen_by(created_before=created.replace(microsecond=0)) in ([], [0])
    assert chosen_by(created_after=created.replace(microsecond=0)) == [0, 1, 2, 3, 4]


def test_a_beginning_that_no_id_has_is_refused(driver: RunDriver) -> None:
    with pytest.raises(NotFound, match="prun_!"):
        rows_of(export_of(driver, "runs", ChosenRuns(filter=RunFilter(text="prun_!"))))


@pytest.mark.usefixtures("small_pages")
def test_an_export_that_finds_little_says_how_far_it_has_looked(
    driver: RunDriver, history: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen, "MOST_SLICES", 1)
    export = export_of(driver, "runs", ChosenRuns(filter=RunFilter(text='"n": 2')))
    parts = list(export.parts(Position()))
    # Two runs, of which none matches; two more; the last one; and the end.
    assert [each.rows for each in parts] == [0, 1, 0, 0]
    for number, each in enumerate(parts[:-1]):
        rest = export.parts(export.position(each.cursor))
        assert [part.rows for part in rest] == [part.rows for part in parts[number + 1 :]]


def test_standalone_tasks_are_exported_by_themselves(driver: RunDriver, history: list[UUID]) -> None:
    request = standalone_tasks.QueueRequest("noop", {"n": 1})
    with driver.database.transaction() as tx:
        [queued] = standalone_tasks.enqueue(tx, driver.values, driver.tenant, [request])
    alone = ChosenRuns(is_standalone=True)
    [found] = rows_of(export_of(driver, "task-runs", alone))
    assert (found["id"], found["pipelineId"]) == (ids.show(ids.TASK_RUN, queued.task_run_id), None)
    assert found["inputsHash"] == rows_of(export_of(driver, "runs", alone))[0]["inputsHash"]
    for filters, count in (
        ({"status": ("running",)}, 1),
        ({"status": ("failed",)}, 0),
        ({"pipeline_id": ("driven",)}, 0),
    ):
        assert len(rows_of(export_of(driver, "runs", ChosenRuns(None, RunFilter(**filters), True)))) == count


def test_another_tenant_gets_nothing(driver: RunDriver, history: list[UUID], database: Database) -> None:
    other = Export(database, STORES, "another", "events", ChosenRuns(run=history[0]))
    assert rows_of(other) == []


def test_no_transaction_is_open_while_a_part_is_sent(driver: RunDriver, history: list[UUID]) -> None:
    parts = export_of(driver, "events").parts(Position())
    next(parts)
    [(count,)] = driver.rows(
        """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND state = 'idle in transaction' AND query LIKE '%FROM events AS e WHERE%ORDER BY%LIMIT%'"""
    )
    assert count == 0


def test_a_cursor_of_something_else_is_refused(driver: RunDriver, history: list[UUID]) -> None:
    cursor = list(export_of(driver, "events").parts(Position()))[-1].cursor
    with pytest.raises(InvalidInput, match="export of events"):
        export_of(driver, "runs").position(cursor)
    with pytest.raises(InvalidInput, match="other filters"):
        export_of(driver, "events", ChosenRuns(filter=RunFilter(status=("failed",)))).position(cursor)
    with pytest.raises(InvalidInput, match="not a cursor"):
        export_of(driver, "events").position(cursor[:-4])


def test_the_last_cursor_goes_on_with_what_came_since(driver: RunDriver, history: list[UUID]) -> None:
    export = export_of(driver, "runs")
    cursor = list(export.parts(Position()))[-1].cursor
    later = driver.trigger()
    assert [each["id"] for each in rows_of(export, export.position(cursor))] == [ids.show(ids.RUN, later)]
