"""What the archive of a month holds."""

from __future__ import annotations

import gzip
import hashlib
from datetime import timedelta

import pytest
from support.retired_months import (
    IN_MARCH,
    NOW,
    Clock,
    fill,
    lines_of,
    manifest_of,
    retire,
)
from support.run_driver import PERMANENT, RunDriver

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.retention import (
    archive,
    archive_format,
)
from pipeweave.orchestrator.retention.archive import RowCounts
from pipeweave.orchestrator.store.database import Database
from pipeweave.storage.local import LocalStorage


def test_every_line_is_a_run_with_all_that_is_known_of_it(database: Database, storage: LocalStorage) -> None:
    made = fill(database, *[IN_MARCH + timedelta(hours=hour) for hour in range(5)], steps=3)
    retire(database)
    lines = lines_of(storage)
    assert [each["runId"] for each in lines] == [ids.show(ids.RUN, each) for each in made]
    for line in lines:
        assert (line["line"], line["isLast"]) == (1, True)
        run, task_runs = line["run"], line["taskRuns"]
        assert (run["id"], run["status"], run["tenant"], run["input"]) == (
            line["runId"],
            "completed",
            "default",
            {"n": 1},
        )
        assert [each["output"] for each in task_runs] == [{"n": 2}] * 3
        assert [each["taskRunId"] for each in line["attempts"]] == [each["id"] for each in task_runs]
        assert [each["taskRunId"] for each in line["events"]] == [each["id"] for each in task_runs]
        assert line["attempts"][0]["errorCode"] == "BOOM"
        assert line["events"][0]["data"] == {"n": 3}


def test_a_run_reads_in_the_archive_as_it_did_in_the_api(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    clock.now = IN_MARCH
    driver = RunDriver(database)
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"]}, {"big": "x" * 50_000})
    driver.finish(run_id, "a", "b", output={"large": "y" * 50_000})
    driver.finish(run_id, "c", failure=PERMANENT)
    with database.transaction() as tx:
        tx.execute(
            """UPDATE runs SET status = 'failed', error_code = 'X', finished_at = created_at
            WHERE finished_at IS NULL"""
        )
    with database.reading() as tx:
        shown = reading.run(tx, driver.tenant, run_id)
        events = reading.run_events(tx, driver.tenant, run_id, reading.PageRequest(1000))["items"]
        details = [reading.task_run(tx, driver.tenant, ids.task_run_id(run_id, n)) for n in (1, 2, 3)]
    clock.now = NOW
    retire(database)
    (line,) = lines_of(storage)
    # The trace id is that of the run: a line says it once.
    assert [{**each, "traceId": line["run"]["traceId"]} for each in line["events"]] == events
    assert line["run"] == {**line["run"], **{key: shown[key] for key in line["run"].keys() & shown.keys()}}
    assert line["run"]["inputRef"]["size"] > 50_000
    for kept, detail in zip(line["taskRuns"], details, strict=True):
        same = kept.keys() & detail.keys() - {"runId"}
        assert len(same) > 25
        assert {key: kept[key] for key in same} == {key: detail[key] for key in same}
    assert line["taskRuns"][0]["outputRef"]["hash"] == line["taskRuns"][0]["outputHash"]


def test_a_run_with_many_steps_goes_on_in_further_lines(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_format, "MOST_IN_LINE", 100)
    monkeypatch.setattr(archive_format, "FETCHED", 7)
    fill(database, IN_MARCH, IN_MARCH, steps=250)
    retire(database)
    lines = lines_of(storage)
    assert [each["line"] for each in lines] == [*range(1, 9)] * 2
    assert [each["isLast"] for each in lines] == [*[False] * 7, True] * 2
    assert [each["run"] is not None for each in lines] == [each["line"] == 1 for each in lines]
    first = [each for each in lines if each["runId"] == lines[0]["runId"]]
    for kind in ("taskRuns", "attempts", "events"):
        found = [item for line in first for item in line[kind]]
        assert len(found) == 250
        assert len({item.get("seq", item.get("taskRunId", item.get("id"))) for item in found}) == 250


@pytest.mark.parametrize(("number", "at_a_time"), [(12, 5), (10, 5), (3, 5), (1, 1)])
def test_no_run_is_lost_between_two_transactions(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, number: int, at_a_time: int
) -> None:
    monkeypatch.setattr(archive_format, "RUNS_AT_ONCE", at_a_time)
    made = fill(database, *[IN_MARCH + timedelta(minutes=each) for each in range(number)])
    retire(database)
    assert [each["runId"] for each in lines_of(storage)] == [ids.show(ids.RUN, each) for each in made]


def test_the_manifest_names_parts_counts_and_hashes(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 20)
    made = fill(database, *[IN_MARCH + timedelta(minutes=each) for each in range(40)], steps=40)
    retire(database)
    manifest = manifest_of(storage)
    assert {key: manifest[key] for key in ("runs", "taskRuns", "attempts", "events")} == {
        "runs": 40,
        **dict.fromkeys(("taskRuns", "attempts", "events"), 1600),
    }
    assert (manifest["month"], manifest["firstRunId"]) == ("2031-03", ids.show(ids.RUN, made[0]))
    assert len(manifest["parts"]) > 1
    for part in manifest["parts"]:
        content = storage.get(part["path"])
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (part["sha256"], part["size"])
        assert len(gzip.decompress(content).splitlines()) == part["lines"]
    (known,) = archive.list_archives(storage)
    assert list(archive.read_lines(storage, known)) == lines_of(storage)


def test_task_runs_without_their_run_are_archived_too(database: Database, storage: LocalStorage) -> None:
    lost, kept = fill(database, IN_MARCH, IN_MARCH + timedelta(days=1))
    with database.transaction() as tx:
        tx.execute("DELETE FROM runs WHERE id = :id", {"id": lost})
    assert retire(database)[0].counts == RowCounts(1, 4, 4, 4, 2)
    lines = lines_of(storage)
    assert [each["run"] is None for each in lines] == [True, False]
    assert [len(each["taskRuns"]) for each in lines] == [2, 2]
    assert lines[1]["runId"] == ids.show(ids.RUN, kept)
